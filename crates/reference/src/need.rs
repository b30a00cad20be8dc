//! The requirements of a request on a hole.

use super::{Reference, Run};

/// The requirements of a request: the length of its block, and its alignment.
pub(super) struct Need {
    /// The length including the header. Saturates at a length that exceeds every hole.
    pub(super) len: usize,
    /// The alignment in granules; 1 for none.
    pub(super) align: usize,
    /// The address of the payload of a block at granule 0, in granules.
    pub(super) first_payload: usize,
    /// The shortest front gap, which must be long enough to be a hole.
    pub(super) min_gap: usize,
}

impl Need {
    pub(super) fn new(heap: &Reference, granules: usize, align: usize) -> Need {
        let granule = heap.rules.granule as usize;
        Need {
            len: granules.saturating_add(heap.header()),
            align: (align / granule).max(1),
            first_payload: heap.rules.phase / granule + heap.header(),
            min_gap: heap.min_remainder(),
        }
    }

    /// Returns the shortest front gap for a block in a hole at `start`: 0, or one that is long enough to be a hole and
    /// after which the payload is aligned.
    pub(super) fn gap(&self, start: usize) -> usize {
        let beyond = start.wrapping_add(self.first_payload) % self.align;
        if beyond == 0 {
            return 0;
        }
        let gap = self.align - beyond;
        gap + self.min_gap.saturating_sub(gap).div_ceil(self.align) * self.align
    }

    /// Returns the upper bound of the front gap for any hole.
    pub(super) fn longest_gap(&self) -> usize {
        match self.align {
            1 => 0,
            align => align.saturating_add(self.min_gap) - 1,
        }
    }

    pub(super) fn fits(&self, hole: &Run) -> bool {
        hole.len >= self.len && hole.len - self.len >= self.gap(hole.start)
    }
}
