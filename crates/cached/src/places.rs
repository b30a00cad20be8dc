//! The addresses of the heap's metadata, for a process that reads it from outside, and a copy of it in a file.

use core::ptr::{NonNull, null};
use core::slice;

use heapwright_heaps::{Glance, MappingTotals};
use heapwright_os::Output;

use heapwright_slabs::arena::{ARENA, lock_word};
use heapwright_slabs::classes::SLAB;
use heapwright_slabs::heap::HeapGlance;
use heapwright_slabs::mode;
use heapwright_slabs::slab::SlabGlance;

/// The addresses of the heap's metadata. They do not change.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    /// A word that is 0 while the arena's lock is free.
    pub lock: *const u32,
    /// The first page.
    pub region: NonNull<u8>,
    /// The metadata of the engine that places slabs and long blocks (see [`Glance`](heapwright_heaps::Glance)).
    pub metadata: NonNull<[u64]>,
    /// An entry of [`SlabGlance::ENTRY`](crate::SlabGlance::ENTRY) bytes for each slab that there can be.
    pub entries: *const u8,
    /// [`SlabGlance::META`](crate::SlabGlance::META) bytes of slab 0. Those of each other slab lie below those of the
    /// slab before.
    pub slabs: *const u8,
    /// The end of the [`HeapGlance::LENGTH`](crate::HeapGlance::LENGTH) bytes of heap 1. Those of each other heap lie
    /// below those of the heap before. Null in the hardened heap.
    pub heaps: *const u8,
    /// The number of blocks with mappings of their own, and their bytes.
    pub mappings: *const MappingTotals,
}

/// Returns the addresses; `None` before the first allocation.
#[must_use]
pub fn places() -> Option<Places> {
    let arena = ARENA.lock()?;
    Some(Places {
        lock: lock_word(),
        region: arena.pages.base(),
        metadata: arena.pages.metadata(),
        entries: ARENA.entries().cast(),
        slabs: ARENA.slabs().cast(),
        heaps: if mode::is_hardened() { null() } else { ARENA.heaps() },
        mappings: arena.mappings.totals(),
    })
}

/// Writes the metadata at these addresses: that of the engine up to the end of the used part of its map, the entries of
/// the slabs (padded to a multiple of 8 bytes), the metadata of these slabs from the last on, the totals of the blocks
/// with mappings of their own, and the heaps from the last to number 1.
pub fn write_state(output: Output) {
    let Some((places, arena)) = places().zip(ARENA.lock()) else { return };
    let cells = places.metadata;
    // SAFETY: the metadata is that long, readable as a whole, and it does not change while the arena is locked.
    let cells = unsafe { slice::from_raw_parts(cells.cast().as_ptr(), cells.len()) };
    let Ok(glance) = Glance::of(cells) else { return };
    let slabs = glance.heap_size().div_ceil(SLAB);
    let (of_slabs, of_heaps) = (slabs * SlabGlance::META, arena.heaps.made() as usize * HeapGlance::LENGTH);
    // SAFETY: the map lies in the metadata; there is an entry and metadata for each slab that the tables have room for
    // (and for one more, so that an even number of them is there too), the totals lie in static memory, and the heaps
    // have been made.
    unsafe {
        output.write_memory(cells.as_ptr().cast(), 8 * glance.map().end);
        output.write_memory(places.entries, (slabs * SlabGlance::ENTRY).next_multiple_of(8));
        output.write_memory(places.slabs.add(SlabGlance::META).sub(of_slabs), of_slabs);
        output.write_memory(places.mappings.cast(), size_of::<MappingTotals>());
        output.write_memory(ARENA.heaps().sub(of_heaps), of_heaps);
    }
}
