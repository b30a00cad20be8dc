//! Secret bytes behind what was asked for.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};

use heapwright_os::secret_word;

use super::Measures;

/// How many bytes these are.
pub(super) const LENGTH: usize = size_of::<u64>();

/// Returns how many bytes of each block are not for the program.
#[inline(always)]
pub(super) fn room(measures: Measures) -> usize {
    if measures.have(Measures::CANARY) { LENGTH } else { 0 }
}

/// The secrets: what addresses are XORed with, and an odd factor.
static MASK: AtomicU64 = AtomicU64::new(0);
static FACTOR: AtomicU64 = AtomicU64::new(0);

/// Chooses the secrets.
pub(super) fn init() {
    MASK.store(secret_word(), Ordering::Relaxed);
    FACTOR.store(secret_word() | 1, Ordering::Relaxed);
}

/// Returns the bytes that must be at an address. The first is never 0, so that the 0 at the end of a string that is one
/// byte too long is found.
#[inline(always)]
fn canary(address: usize) -> u64 {
    let product = (address as u64 ^ MASK.load(Ordering::Relaxed)).wrapping_mul(FACTOR.load(Ordering::Relaxed));
    // The low bits of a product depend on few bits of the factors.
    (product ^ product >> 32 | 1).to_le()
}

/// Puts the bytes behind the first `size` of a block.
///
/// # Safety
/// The block is `size` bytes long, and nothing else uses the [`LENGTH`] bytes behind it.
#[inline]
pub(super) unsafe fn put(block: NonNull<u8>, size: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let place = block.add(size);
        place.cast().write_unaligned(canary(place.addr().get()));
    }
}

/// Whether they are there.
///
/// # Safety
/// As [`put`].
#[inline]
pub(super) unsafe fn is_intact(block: NonNull<u8>, size: usize) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        let place = block.add(size);
        place.cast::<u64>().read_unaligned() == canary(place.addr().get())
    }
}

/// Overwrites them, so that they do not come into what the program has.
///
/// # Safety
/// As [`put`].
pub(super) unsafe fn remove(block: NonNull<u8>, size: usize) {
    // SAFETY: the caller's promise.
    unsafe { block.add(size).write_bytes(0, LENGTH) };
}
