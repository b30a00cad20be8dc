//! The state of a heap, decoded from its bytes by another process.

use core::mem::offset_of;

use super::cache::ThreadCache;
use super::parts::{HEAP_OFFSET, Heap};
use super::remote_buffer::{REMOTE_BUFFERS, RemoteBuffer};
use crate::classes::{CLASSES, size_of_class};
use crate::free_list::FreeList;
use crate::long_cache::LongCache;
use crate::tables::HEAP_STEP;

/// The heap of a thread, decoded from bytes that may be inconsistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapGlance {
    /// The number of blocks in the list of each class.
    lists: [u16; CLASSES],
    /// The number of blocks in its thread's remote-free buffers.
    pub remote_buffered: usize,
    /// The number of freed long blocks that its thread keeps.
    pub kept_blocks: usize,
    /// The bytes of these.
    pub kept_bytes: usize,
}

impl HeapGlance {
    /// The bytes of each heap in the table of heaps.
    pub const LENGTH: usize = HEAP_STEP;

    /// Decodes a heap; `None` when none has been made at that place, nor behind it.
    #[must_use]
    pub fn of(bytes: &[u8; Self::LENGTH]) -> Option<HeapGlance> {
        let word = |at: usize| u32::from_ne_bytes(core::array::from_fn(|byte| bytes[at + byte]));
        if word(HEAP_OFFSET + offset_of!(Heap, owner)) == 0 {
            return None;
        }
        let cache = HEAP_OFFSET + offset_of!(Heap, cache);
        let lists = core::array::from_fn(|class| {
            let list = cache + offset_of!(ThreadCache, lists) + class * size_of::<FreeList>();
            FreeList::length_in(&core::array::from_fn(|byte| bytes[list + byte]))
        });
        let buffered = (0..REMOTE_BUFFERS).map(|number| {
            let buffer = cache + offset_of!(ThreadCache, remote_buffers) + number * size_of::<RemoteBuffer>();
            word(buffer + offset_of!(RemoteBuffer, count)) as usize
        });
        let kept = cache + offset_of!(ThreadCache, long_cache);
        let [kept_blocks, kept_bytes] = LongCache::FIGURES_AT.map(|at| word(kept + at) as usize);
        Some(HeapGlance { lists, remote_buffered: buffered.sum(), kept_blocks, kept_bytes })
    }

    /// Returns the length of the blocks and their number for each list that is not empty.
    pub fn lists(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let lists = self.lists.into_iter().enumerate().filter(|&(_, count)| count != 0);
        lists.map(|(class, count)| (size_of_class(class), count.into()))
    }
}
