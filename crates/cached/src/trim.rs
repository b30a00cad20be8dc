//! Trimming: purging what is in memory but not used.

use heapwright_os::{PageRange, resident_unless_filtered, split_all_huge_pages};

use crate::lifecycle::{abandon, adopted, heap_to_allocate_in};
use crate::pages::page_returns;
use crate::{harden, long};
use heapwright_slabs::arena::ARENA;
use heapwright_slabs::heap::{Heap, Pages};
use heapwright_slabs::mode;

/// Flushes the calling thread's heap, reclaims for all other heaps, and purges the idle pages of slabs and the holes of
/// the page heap. The lists of other running threads stay. Returns the number of bytes of the heap and its records that
/// are not in memory any more; where the system must not be asked what is, the bytes that were purged.
///
/// Time: in proportion to what is purged. What is in no memory because it was purged before takes none.
pub fn trim() -> usize {
    if let Some(mut arena) = ARENA.lock() {
        arena.begin_trim();
    }
    let returned = if mode::is_hardened() {
        adopted();
        harden::trim()
    } else {
        // Blocks in an inbox whose slab has moved to another heap are sent there in the first round, and reclaimed in
        // the second.
        let before = purged();
        trim_heaps();
        trim_heaps();
        purged().saturating_sub(before)
    };
    let trimmed = trim_pages();
    if !mode::is_hardened() {
        split_all_huge_pages();
    }
    returned + trimmed
}

/// Purges all holes of the page heap, and unmaps what lies behind the last block. Returns how many bytes of them were
/// in memory: long blocks may have pages that were never used.
#[cold]
#[inline(never)]
fn trim_pages() -> usize {
    /// The bytes for which the arena's lock is held at once: other threads wait for it.
    const PORTION: usize = 64 << 20;
    let mut left = ARENA.lock().map_or(0, |arena| arena.pages.pending());
    let mut trimmed = 0;
    while left != 0
        && let Some(mut arena) = ARENA.lock()
    {
        trimmed += arena.pages.trim_weighed(PORTION, in_memory);
        left = left.saturating_sub(PORTION);
    }
    if let Some(mut arena) = ARENA.lock() {
        arena.end_trim();
    }
    trimmed
}

fn in_memory(range: &PageRange) -> usize {
    resident_unless_filtered(range.start, range.length).unwrap_or(range.length)
}

/// Returns the bytes of idle pages of slabs, and of holes, that were purged so far. During a trim, no hole is purged
/// before its end.
fn purged() -> usize {
    page_returns().map_or(0, |returns| returns.bytes as usize)
}

/// Trims the calling thread's heap, all orphans, and all other heaps whose slabs are not locked.
#[cold]
#[inline(never)]
pub(crate) fn trim_heaps() {
    let own = heap_to_allocate_in();
    if let Some(own) = own {
        long::flush_cache(own);
        own.trim();
    }
    while let Some(orphan) = ARENA.lock().and_then(|mut arena| arena.heaps.orphan()) {
        long::flush_cache(orphan);
        orphan.flush();
        abandon(orphan, Pages::Kept);
    }
    let Some(all) = ARENA.lock().map(|arena| arena.heaps.all()) else { return };
    all.filter(|heap| own.is_none_or(|own| own.owner() != heap.owner())).for_each(Heap::trim_as_visitor);
}
