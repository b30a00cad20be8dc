//! Trimming: purging what is in memory but not used.

use heapwright_os::{page_size, resident};

use crate::lifecycle::{abandon, adopted, heap_to_allocate_in};
use crate::{harden, long};
use heapwright_slabs::arena::ARENA;
use heapwright_slabs::heap::Heap;
use heapwright_slabs::mode;

/// Flushes the calling thread's heap, reclaims for all other heaps, and purges the idle pages of slabs and the holes of
/// the page heap. The lists of other running threads stay. Returns the number of bytes of the heap that are not in
/// memory any more.
pub fn trim() -> usize {
    // Measured rather than counted: purged pages may not have been in memory, and flushing may purge.
    let before = pages_in_memory();
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
    }
    before.saturating_sub(pages_in_memory())
}

/// Returns the bytes of the page heap that are in memory; 0 where the system does not report it.
#[cold]
#[inline(never)]
fn pages_in_memory() -> usize {
    let Some((start, length)) = ARENA.lock().map(|arena| (arena.pages.base(), arena.pages.heap_size())) else {
        return 0;
    };
    resident(start, length.next_multiple_of(page_size())).unwrap_or(0)
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
        abandon(orphan);
    }
    let Some(all) = ARENA.lock().map(|arena| arena.heaps.all()) else { return };
    all.filter(|heap| own.is_none_or(|own| own.owner() != heap.owner())).for_each(Heap::trim_as_visitor);
}
