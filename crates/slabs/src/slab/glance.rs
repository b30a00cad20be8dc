//! The state of a slab, decoded from its metadata by another process.

use core::mem::offset_of;

use super::division::Overlaps;
use super::{PAGES, Slab, SlabMeta};
use crate::classes::{CLASSES, GRAIN, PAGE, SLAB, class_of, size_of_class};
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

    /// Returns for each page the bytes in blocks that are out; their sum is [`SlabGlance::bytes_out`]. Where several
    /// sets of blocks have the counts of the slab, they are those of one of them. In a dissolved slab, and where the
    /// counts contradict each other, the bytes are spread over the pages by their counts.
    pub fn bytes_out_by_page(&self) -> impl Iterator<Item = usize> + use<> {
        let overlaps = self.size.map(|size| Overlaps::new(class_of(size), &self.pages));
        let divided = overlaps.and_then(|overlaps| overlaps.bytes_by_page(self.out));
        divided.unwrap_or_else(|| self.spread_bytes_out()).into_iter()
    }

    /// Spreads the bytes of blocks that are out over the pages that these blocks overlap, as far as they have room.
    fn spread_bytes_out(&self) -> [usize; PAGES] {
        let overlaps: usize = self.pages.iter().copied().map(usize::from).sum();
        let share = |out: u16| (self.bytes_out * usize::from(out) / overlaps.max(1)).min(PAGE);
        let mut bytes = self.pages.map(share);
        let mut left = self.bytes_out - bytes.iter().sum::<usize>();
        for (bytes, _) in bytes.iter_mut().zip(self.pages).filter(|(_, out)| *out != 0) {
            let more = left.min(PAGE - *bytes);
            *bytes += more;
            left -= more;
        }
        bytes
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

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::classes::sizes;

    /// Returns the glance at a slab of which these blocks are out, and the bytes of them in each page.
    fn glance_at(size: usize, blocks: &[usize]) -> (SlabGlance, [usize; PAGES]) {
        let (mut pages, mut bytes) = ([0; PAGES], [0; PAGES]);
        for block in blocks {
            let (start, end) = (block * size, (block + 1) * size);
            for page in start / PAGE..end.div_ceil(PAGE) {
                pages[page] += 1;
                bytes[page] += end.min((page + 1) * PAGE) - start.max(page * PAGE);
            }
        }
        let (out, bytes_out) = (blocks.len(), blocks.len() * size);
        (SlabGlance { owner: 1, size: Some(size), out, bytes_out, pages, resident: u16::MAX }, bytes)
    }

    fn by_page(slab: &SlabGlance) -> Vec<usize> {
        slab.bytes_out_by_page().collect()
    }

    #[test]
    fn the_bytes_of_a_block_are_divided_among_its_pages() {
        let mut random = fastrand::Rng::with_seed(7);
        for size in sizes() {
            for share in [0.0, 0.05, 0.5, 0.95, 1.0] {
                let blocks: Vec<usize> = (0..SLAB / size).filter(|_| random.f64() < share).collect();
                let (slab, bytes) = glance_at(size, &blocks);
                let pages = by_page(&slab);
                assert_eq!(pages.iter().sum::<usize>(), slab.bytes_out, "{slab:?}: {pages:?}");
                for (page, &known) in pages.iter().enumerate() {
                    assert_eq!(known == 0, slab.pages[page] == 0, "{slab:?}: {pages:?}");
                    assert!(known <= PAGE, "{slab:?}: {pages:?}");
                    // No other blocks have these counts.
                    if size >= PAGE || PAGE.is_multiple_of(size) || [0.0, 1.0].contains(&share) {
                        assert_eq!(known, bytes[page], "{slab:?}: {pages:?}, {bytes:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn every_second_block_of_three_kilobytes_is_half_of_the_slab() {
        let (slab, _) = glance_at(3072, &[1, 3, 5, 7, 9, 11, 13, 15, 17, 19]);
        assert_eq!(by_page(&slab).iter().sum::<usize>(), 10 * 3072);
    }

    #[test]
    fn counts_that_no_blocks_have_are_within_what_a_slab_can_have() {
        let mut random = fastrand::Rng::with_seed(8);
        for _ in 0..2_000 {
            let size = [None, Some(48), Some(3072), Some(20_480)][random.usize(..4)];
            let out = random.usize(..=SLAB / size.unwrap_or(GRAIN));
            let bytes_out = size.map_or(random.usize(..=SLAB), |size| out * size);
            let pages = core::array::from_fn(|_| random.u16(..) >> random.u32(..16));
            let slab = SlabGlance { owner: 1, size, out, bytes_out, pages, resident: 0 };
            let bytes = by_page(&slab);
            assert!(bytes.iter().all(|&bytes| bytes <= PAGE), "{slab:?}");
            assert!(bytes.iter().sum::<usize>() <= bytes_out, "{slab:?}");
        }
    }

    #[test]
    fn the_bytes_of_a_dissolved_slab_are_all_in_its_pages() {
        let mut pages = [0; PAGES];
        pages[3..6].copy_from_slice(&[1, 1, 200]);
        let slab = SlabGlance { owner: 1, size: None, out: 201, bytes_out: 11_000, pages, resident: u16::MAX };
        assert_eq!(by_page(&slab).iter().sum::<usize>(), 11_000, "{:?}", by_page(&slab));
        assert_eq!(by_page(&slab)[5], PAGE);
    }
}
