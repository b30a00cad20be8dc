//! Trimming: purging what is in memory but not used.

use heapwright_os::{page_size, resident_unless_filtered, split_all_huge_pages};

use crate::lifecycle::{abandon, adopted, heap_to_allocate_in};
use crate::pages::page_returns;
use crate::{harden, long};
use heapwright_slabs::arena::ARENA;
use heapwright_slabs::heap::{Heap, Pages};
use heapwright_slabs::mode;

/// Flushes the calling thread's heap, reclaims for all other heaps, and purges the idle pages of slabs and the holes of
/// the page heap. The lists of other running threads stay. Returns the number of bytes of the heap that are not in
/// memory any more; where that must not be asked, the bytes that were purged.
pub fn trim() -> usize {
    // Measured rather than counted: purged pages may not have been in memory, and flushing may purge.
    let (before, purged_before) = (pages_in_memory(), pages_purged());
    if mode::is_hardened() {
        adopted();
        harden::trim();
    } else {
        // Blocks in an inbox whose slab has moved to another heap are sent there in the first round, and reclaimed in
        // the second.
        trim_heaps();
        trim_heaps();
        if let Some(mut arena) = ARENA.lock() {
            arena.trim();
        }
        split_all_huge_pages();
    }
    match (before, pages_in_memory()) {
        (Some(before), Some(after)) => before.saturating_sub(after),
        _ => pages_purged().saturating_sub(purged_before),
    }
}

/// Returns the bytes of the page heap that are in memory; `None` where the system does not report it, or must not be
/// asked.
#[cold]
#[inline(never)]
fn pages_in_memory() -> Option<usize> {
    let (start, length) = ARENA.lock().map(|arena| (arena.pages.base(), arena.pages.heap_size()))?;
    resident_unless_filtered(start, length.next_multiple_of(page_size()))
}

/// Returns the bytes of the page heap that were purged so far, whether or not they were in memory.
fn pages_purged() -> usize {
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
