//! The lists of the dissolved slabs of a heap.

use crate::slab::dissolved::LONGEST;
use crate::slab_list::SlabList;

/// The dissolved slabs of a heap that have free grains, by the longest run of these: two lists for each power of two.
pub(super) struct DissolvedSlabs {
    pub(super) lists: [SlabList; DissolvedSlabs::LISTS],
}

impl DissolvedSlabs {
    pub(super) const LISTS: usize = 2 * LONGEST.ilog2() as usize + 1;

    pub(super) const NONE: DissolvedSlabs = DissolvedSlabs { lists: [SlabList::EMPTY; DissolvedSlabs::LISTS] };

    /// Returns the list for slabs whose longest run has `longest` grains; `None` for 0. List 1 stays empty.
    pub(super) fn index_of(longest: u32) -> Option<usize> {
        let log2 = longest.checked_ilog2()?;
        let half = (u64::from(longest) << 1 >> log2) % 2;
        Some((2 * log2) as usize + half as usize)
    }

    pub(super) fn list(&self, list: usize) -> &SlabList {
        &self.lists[list]
    }

    /// The first slab of each list.
    pub(super) fn firsts(&self) -> [Option<u32>; Self::LISTS] {
        core::array::from_fn(|list| self.lists[list].first())
    }
}
