//! How many pages of long blocks are resident when they begin and when they end: what the program touched of them.
//!
//! Only pages that lie wholly in a block count. Pages are used again, so that some are resident when a block begins:
//! whether the program touched those is not known.

use core::ptr::{NonNull, with_exposed_provenance_mut};
use core::sync::atomic::{AtomicUsize, Ordering};

use heapwright_os::{page_size, resident, spread};
use heapwright_stream::Call;

use crate::glibc;
use crate::state::{add_usage_if_due, note};
use crate::system::usable_size;
use crate::timing;

/// The least usable bytes of a block whose pages are counted. Two system calls per block of this size cost less than
/// touching a part of it.
pub(crate) const WATCHED_FROM: usize = 1 << 16;

/// The most bytes that are looked at; of a longer block, stretches of it that are evenly spaced.
const MOST: usize = 64 << 20;

/// Number of those stretches.
const STRETCHES: usize = 16;

/// The alignment that is noted with the pages at the beginning and at the end: the two have no other difference.
const BEGINS: usize = 1;
const ENDS: usize = 2;

/// A long block that is live: its address, 0 for none, and its size, 0 while that is not known.
struct Long {
    address: AtomicUsize,
    size: AtomicUsize,
}

/// The long blocks that are live. If there are more, those that do not fit are not known at the end of the program.
static LIVE: [Long; 1024] = [const { Long { address: AtomicUsize::new(0), size: AtomicUsize::new(0) } }; 1024];

/// Number of places in which a block is looked for.
const PLACES: usize = 16;

/// Whether blocks of this size are long.
#[inline(always)]
pub(crate) const fn is_long(size: usize) -> bool {
    size >= WATCHED_FROM
}

/// Whether a block is long; `false` when that is not known.
///
/// # Safety
/// The block is live, and one of the functions of [`glibc`] has allocated it.
#[inline(always)]
pub(crate) unsafe fn is_long_block(block: *mut u8) -> bool {
    // SAFETY: a function of `glibc` has allocated the block, as this function requires.
    glibc::is_its_own() && is_long(unsafe { usable_size(block) })
}

/// Notes the pages of a new block, if it is long.
///
/// # Safety
/// The block is null, or one of the functions of [`glibc`] has allocated it.
#[inline(always)]
pub(crate) unsafe fn begin(block: *mut u8, size: usize) {
    if is_long(size) && !block.is_null() && glibc::is_its_own() {
        note_pages(block, size, BEGINS);
        remember(block.expose_provenance(), size);
    }
}

/// Notes a block that was resized, if it is long now: what is resident of it are its contents, which the program
/// touched before.
///
/// # Safety
/// As for [`begin`].
pub(crate) unsafe fn continue_resized(block: *mut u8, size: usize) {
    if is_long(size) && !block.is_null() && glibc::is_its_own() {
        note(Call::Resident, BEGINS, 0, block);
        remember(block.expose_provenance(), size);
    }
}

/// Notes the pages of a block that is about to be freed or resized, if it is long, and what the process uses.
///
/// # Safety
/// As for [`is_long_block`].
pub(crate) unsafe fn end(block: *mut u8) {
    // SAFETY: a function of `glibc` has allocated the block, as this function requires.
    unsafe {
        if is_long_block(block) {
            forget(block.expose_provenance());
            note_pages(block, usable_size(block), ENDS);
            add_usage_if_due();
        }
    }
}

/// Notes the pages of all blocks that are still live. Called when the program ends.
pub(crate) fn end_all() {
    for long in &LIVE {
        // Another thread may free the block now. Its memory is not read: the system is asked about it.
        let (block, size) = (long.address.swap(0, Ordering::Relaxed), long.size.swap(0, Ordering::Relaxed));
        if block != 0 && size != 0 {
            note_pages(with_exposed_provenance_mut(block), size, ENDS);
        }
    }
}

#[cold]
#[inline(never)]
fn note_pages(block: *mut u8, size: usize, when: usize) {
    if let Some(bytes) = timing::counting_pages(|| resident_within(block, size)) {
        note(Call::Resident, when, bytes / page_size(), block);
    }
}

/// Returns how many bytes of the whole pages of a block are resident, of a very long one estimated.
fn resident_within(block: *mut u8, size: usize) -> Option<usize> {
    let page = page_size();
    let start = block.addr().next_multiple_of(page);
    let end = (block.addr() + size) / page * page;
    let length = end.checked_sub(start)?;
    let at = |offset: usize| NonNull::new(block.with_addr(start + offset));
    if length <= MOST {
        return resident(at(0)?, length);
    }
    let stretch = MOST / STRETCHES;
    let step = (length - stretch) / (STRETCHES - 1) / page * page;
    let mut found = 0;
    for number in 0..STRETCHES {
        found += resident(at(number * step)?, stretch)?;
    }
    Some((found as u128 * length as u128 / MOST as u128) as usize)
}

/// Returns the places where a block may be remembered.
fn places(block: usize) -> impl Iterator<Item = &'static Long> {
    let first = (spread(block as u64 >> 12) >> (u64::BITS - 10)) as usize;
    (0..PLACES).map(move |step| &LIVE[(first + step) % LIVE.len()])
}

fn remember(block: usize, size: usize) {
    let is_free = |long: &&Long| long.address.compare_exchange(0, block, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    // A block that finds no place is not known at the end of the program.
    if let Some(long) = places(block).find(is_free) {
        long.size.store(size, Ordering::Relaxed);
    }
}

fn forget(block: usize) {
    if let Some(long) = places(block).find(|long| long.address.load(Ordering::Relaxed) == block) {
        long.size.store(0, Ordering::Relaxed);
        long.address.store(0, Ordering::Relaxed);
    }
}
