//! Where the parts of the heap lie, for whoever looks at them from outside the process, and its last state in a file for who
//! comes later.

use core::ptr::{NonNull, null};
use core::slice;

use heapwright_heaps::Glance;
use heapwright_os::Output;

use crate::ground::{GROUND, lock_word};
use crate::harden;
use crate::heap::HeapGlance;
use crate::slab::{SLAB, SlabGlance};

/// Where the parts of the heap lie. They stay there.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    /// A word that is 0 while nobody has the pages for himself.
    pub lock: *const u32,
    /// The first byte of the pages.
    pub region: NonNull<u8>,
    /// The metadata of the engine that places slabs and longer blocks (see [`Glance`](heapwright_heaps::Glance)).
    pub metadata: NonNull<[u64]>,
    /// An entry of [`SlabGlance::ENTRY`](crate::SlabGlance::ENTRY) bytes for each slab that there can be.
    pub entries: *const u8,
    /// [`SlabGlance::KNOWN`](crate::SlabGlance::KNOWN) bytes for each slab that there can be.
    pub slabs: *const u8,
    /// The heaps, [`HeapGlance::LENGTH`](crate::HeapGlance::LENGTH) bytes each. Number 0 is nobody's. Null when measures of
    /// hardening are taken: blocks are not kept in slabs and heaps then.
    pub heaps: *const u8,
}

/// Where everything lies; `None` before there is a heap.
#[must_use]
pub fn places() -> Option<Places> {
    let ground = GROUND.shared()?;
    Some(Places {
        lock: lock_word(),
        region: ground.pages.base(),
        metadata: ground.pages.metadata(),
        entries: GROUND.entries().cast(),
        slabs: GROUND.slabs().cast(),
        heaps: if harden::is_on() { null() } else { GROUND.heaps() },
    })
}

/// Writes what those places hold: the metadata up to the end of the used part of its map, the entries of the slabs that lie in the heap
/// (filled up to a multiple of 8 bytes), what is known of each of these slabs, and the heaps from number 1 on.
pub fn write_state(output: Output) {
    let Some((places, ground)) = places().zip(GROUND.shared()) else { return };
    let cells = places.metadata;
    // SAFETY: the metadata is that long, readable as a whole, and nobody writes to it while the ground is held.
    let cells = unsafe { slice::from_raw_parts(cells.cast().as_ptr(), cells.len()) };
    let Ok(glance) = Glance::of(cells) else { return };
    let slabs = glance.heap_size().div_ceil(SLAB);
    // SAFETY: the map lies in the metadata; there is an entry and what is known for each slab that there can be (and for one
    // more, so that an even number of them is there too), and the heaps have been made.
    unsafe {
        output.write_memory(cells.as_ptr().cast(), 8 * glance.map().end);
        output.write_memory(places.entries, (slabs * SlabGlance::ENTRY).next_multiple_of(8));
        output.write_memory(places.slabs, slabs * SlabGlance::KNOWN);
        output.write_memory(GROUND.heaps().add(HeapGlance::LENGTH), ground.heaps.made() as usize * HeapGlance::LENGTH);
    }
}
