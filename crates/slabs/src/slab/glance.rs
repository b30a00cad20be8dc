//! The state of a slab, decoded from its metadata by another process.

use core::mem::offset_of;

use super::{PAGES, Slab, SlabMeta};
use crate::classes::{CLASSES, GRAIN, PAGE, SLAB, size_of_class};
use crate::entry::{DISSOLVED, Entry};

/// A slab, decoded from bytes that may be inconsistent: figures are within what a slab can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlabGlance {
    /// The number of the heap that has the slab.
    pub owner: u32,
    /// The length of its blocks in bytes; `None` for a dissolved slab, whose blocks have several.
    pub size: Option<usize>,
    /// The number of blocks that are out: used by the program, or in a thread cache or an inbox.
    pub out: usize,
    /// The bytes of these blocks.
    pub bytes_out: usize,
    /// For each page, the number of blocks that overlap it and are out.
    pages: [u16; PAGES],
    resident: u16,
}

impl SlabGlance {
    /// The length of a slab in bytes, and the alignment of its offset in the region.
    pub const LENGTH: usize = SLAB;
    /// The length of the pages by which it is managed.
    pub const PAGE: usize = PAGE;
    /// The bytes of the entry of a slab.
    pub const ENTRY: usize = size_of::<Entry>();
    /// The bytes of a slab's metadata.
    pub const META: usize = size_of::<SlabMeta>();

    /// Decodes the slab with this entry and metadata; `None` when the entry is that of no slab.
    #[must_use]
    pub fn of(entry: u32, meta: &[u8; Self::META]) -> Option<SlabGlance> {
        let entry = Entry::from_bits(entry);
        let size = match entry.class() {
            _ if entry == Entry::NONE => return None,
            DISSOLVED => None,
            class if class < CLASSES => Some(size_of_class(class)),
            _ => return None,
        };
        let half = |at: usize| u16::from_ne_bytes([meta[at], meta[at + 1]]);
        let slab = |field: usize| offset_of!(SlabMeta, slab) + field;
        let out = usize::from(half(offset_of!(SlabMeta, out))).min(SLAB / size.unwrap_or(GRAIN));
        let grains = usize::from(half(slab(offset_of!(Slab, grains_out)))).min(SLAB / GRAIN);
        let bytes_out = size.map_or(grains * GRAIN, |size| out * size);
        let pages = core::array::from_fn(|page| half(slab(offset_of!(Slab, out)) + 2 * page));
        let resident = half(slab(offset_of!(Slab, resident)));
        Some(SlabGlance { owner: entry.owner(), size, out, bytes_out, pages, resident })
    }

    /// Returns for each page an upper bound of the bytes in blocks that are out. In a dissolved slab these are taken to
    /// be of one length.
    pub fn bytes_out_by_page(&self) -> impl Iterator<Item = usize> + use<> {
        let size = self.size.unwrap_or_else(|| self.bytes_out.div_ceil(self.out.max(1)));
        self.pages.into_iter().map(move |out| (usize::from(out) * size).min(PAGE))
    }

    /// Returns the number of pages that may be in memory.
    #[must_use]
    pub fn resident(&self) -> usize {
        self.resident.count_ones() as usize
    }

    /// Returns the number of idle pages: they may be in memory, and no block that is out overlaps them.
    #[must_use]
    pub fn idle(&self) -> usize {
        (0..PAGES).filter(|&page| self.resident & 1 << page != 0 && self.pages[page] == 0).count()
    }
}
