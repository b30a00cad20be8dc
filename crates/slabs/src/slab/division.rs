//! Divides the bytes of blocks that are out among the pages of their slab.
//!
//! The metadata of a slab has the number of blocks that overlap each page and are out, and their number in all. A block
//! that crosses into the next page counts in both. Which blocks these are follows from the counts of all pages, from
//! the lowest up. Where several sets of blocks have the same counts, one of them is taken.

use core::ops::Range;

use super::PAGES;
use crate::classes::{PAGE, blocks_in_slab, blocks_to, size_of_class};

/// The blocks of a slab of one class.
pub(super) struct Overlaps<'a> {
    /// The length of a block.
    size: usize,
    /// For each page, the number of blocks that overlap it and are out.
    overlaps: &'a [u16; PAGES],
    /// For each page, and for the end of the slab, the number of blocks that begin below it.
    below: [usize; PAGES + 1],
    /// For each of these places, how far behind it the last of these blocks reaches, in bytes.
    beyond: [usize; PAGES + 1],
}

/// For each page, and for both answers to whether a block that is out crosses into it: a bit for each number of
/// crossings behind it that its count and those of the higher pages allow.
type Crossings = [[u32; 2]; PAGES + 1];

impl<'a> Overlaps<'a> {
    /// Returns the blocks of a slab of `class`, of which each page is overlapped by `overlaps` that are out.
    pub(super) fn new(class: usize, overlaps: &'a [u16; PAGES]) -> Overlaps<'a> {
        let size = size_of_class(class);
        let below = core::array::from_fn(|page| blocks_to(page * PAGE, class).min(blocks_in_slab(class)));
        let beyond = core::array::from_fn(|page| (below[page] * size).saturating_sub(page * PAGE));
        Overlaps { size, overlaps, below, beyond }
    }

    /// Returns the bytes in each page of blocks that are out, `out` in all; `None` for counts that no blocks have.
    pub(super) fn bytes_by_page(&self, out: usize) -> Option<[usize; PAGES]> {
        let overlaps: usize = self.overlaps.iter().copied().map(usize::from).sum();
        // Each crossing counts a block once more.
        let mut left = overlaps.checked_sub(out)?;
        let crossings = self.crossings();
        let allows = |page: usize, entering: usize, left: Option<usize>| {
            left.is_some_and(|left| left < 32 && crossings[page][entering] >> left & 1 == 1)
        };
        let (mut bytes, mut entering) = ([0; PAGES], 0);
        for (page, bytes) in bytes.iter_mut().enumerate() {
            let mut can_leave = self.can_leave(page, entering);
            let leaving = can_leave.find(|&leaving| allows(page + 1, leaving, left.checked_sub(leaving)))?;
            *bytes = self.bytes_in(page, entering, leaving);
            (left, entering) = (left - leaving, leaving);
        }
        Some(bytes)
    }

    /// Computes the numbers of crossings that the counts allow, from the highest page down.
    fn crossings(&self) -> Crossings {
        let mut crossings = [[0; 2]; PAGES + 1];
        crossings[PAGES][0] = 1;
        for page in (0..PAGES).rev() {
            for entering in 0..2 {
                let numbers = self.can_leave(page, entering).map(|leaving| crossings[page + 1][leaving] << leaving);
                crossings[page][entering] = numbers.fold(0, |all, of_one| all | of_one);
            }
        }
        crossings
    }

    /// Returns the numbers of blocks, of 0 and 1, that may cross from a page into the next one and be out, if
    /// `entering` cross into it.
    fn can_leave(&self, page: usize, entering: usize) -> Range<usize> {
        let blocks = self.below[page + 1] - self.below[page];
        let begin = usize::from(self.overlaps[page]).checked_sub(entering);
        match begin.filter(|&out| out <= blocks) {
            None => 0..0,
            Some(_) if self.beyond[page + 1] == 0 => 0..1,
            // The block that enters covers the page and leaves it.
            Some(_) if blocks == 0 => entering..entering + 1,
            Some(0) => 0..1,
            Some(out) if out == blocks => 1..2,
            Some(_) => 0..2,
        }
    }

    /// Returns the bytes in a page of blocks that are out, of which `entering` cross into it and `leaving` out of it.
    fn bytes_in(&self, page: usize, entering: usize, leaving: usize) -> usize {
        if self.beyond[page] > PAGE {
            return entering * PAGE;
        }
        let whole = usize::from(self.overlaps[page]) - entering - leaving;
        entering * self.beyond[page] + whole * self.size + leaving * (self.size - self.beyond[page + 1])
    }
}
