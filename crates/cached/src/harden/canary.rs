//! Secret bytes behind what was asked for.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};

use heapwright_os::secret_word;

use super::Measures;
use super::draw::mix;

/// How many bytes these are.
pub(super) const LENGTH: usize = 8;

/// Returns how many bytes of each block are not for the program.
#[inline(always)]
pub(super) fn room(measures: Measures) -> usize {
    if measures.have(Measures::CANARY) { LENGTH } else { 0 }
}

static KEY: AtomicU64 = AtomicU64::new(0);

/// Chooses the secret.
pub(super) fn init() {
    KEY.store(secret_word(), Ordering::Relaxed);
}

/// What has to stand at an address. Its first byte is never 0, so that the 0 at the end of a text that is one byte too long is seen.
fn canary(address: usize) -> [u8; LENGTH] {
    (mix(address as u64 ^ KEY.load(Ordering::Relaxed)) | 1).to_le_bytes()
}

/// Puts the bytes behind the first `size` of a block.
///
/// # Safety
/// The block has so many bytes, and [`LENGTH`] more that nobody else uses.
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
        place.cast::<[u8; LENGTH]>().read_unaligned() == canary(place.addr().get())
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
