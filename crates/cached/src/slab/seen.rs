//! A slab as the bytes of what is known of it show it.

use core::mem::offset_of;

use super::{Known, PAGE, PAGES, SLAB, Slab};
use crate::classes::{CLASSES, size_of_class};
use crate::heap::Entry;

/// A slab, seen from outside the process. Nothing here trusts the bytes: whatever they are, figures stay within what a slab can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlabGlance {
    /// The number of the heap that it belongs to.
    pub owner: u32,
    /// How long its blocks are, in bytes.
    pub size: usize,
    /// How many blocks are out: with the program or in lists.
    pub out: usize,
    /// How many of the blocks that overlap each page are out.
    pages: [u16; PAGES],
    resident: u16,
}

impl SlabGlance {
    /// A slab's length in bytes, and what its offset in the region is a multiple of.
    pub const LENGTH: usize = SLAB;
    /// The length of the pages that it is kept by.
    pub const PAGE: usize = PAGE;
    /// How many bytes the entry of a slab takes.
    pub const ENTRY: usize = size_of::<Entry>();
    /// How many bytes are known of each slab beside its entry.
    pub const KNOWN: usize = size_of::<Known>();

    /// What is known of the slab with this entry; `None` when it is that of no slab.
    #[must_use]
    pub fn of(entry: u32, known: &[u8; Self::KNOWN]) -> Option<SlabGlance> {
        let entry = Entry::from_bits(entry);
        if entry == Entry::NONE || entry.class() >= CLASSES {
            return None;
        }
        let size = size_of_class(entry.class());
        let half = |at: usize| u16::from_ne_bytes([known[at], known[at + 1]]);
        let slab = |field: usize| offset_of!(Known, slab) + field;
        let out = usize::from(half(offset_of!(Known, out))).min(SLAB / size);
        let pages = core::array::from_fn(|page| half(slab(offset_of!(Slab, out)) + 2 * page));
        Some(SlabGlance { owner: entry.owner(), size, out, pages, resident: half(slab(offset_of!(Slab, resident))) })
    }

    /// How many blocks it has, used and free.
    #[must_use]
    pub fn blocks(&self) -> usize {
        SLAB / self.size
    }

    /// How many bytes of its pages lie in blocks that are out, page by page: what each page has at most of them.
    pub fn bytes_out(&self) -> impl Iterator<Item = usize> + use<> {
        let size = self.size;
        self.pages.into_iter().map(move |out| (usize::from(out) * size).min(PAGE))
    }

    /// How many pages may be in memory.
    #[must_use]
    pub fn resident(&self) -> usize {
        self.resident.count_ones() as usize
    }

    /// How many of those are there for nothing: no block that is out overlaps them.
    #[must_use]
    pub fn idle(&self) -> usize {
        (0..PAGES).filter(|&page| self.resident & 1 << page != 0 && self.pages[page] == 0).count()
    }
}
