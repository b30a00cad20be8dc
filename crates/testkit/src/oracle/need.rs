//! What a request needs of a hole.

use super::{Oracle, Run};

/// A request: the length of its block, and where that may start.
pub(super) struct Need {
    /// Header included; saturated, which no hole is long enough for.
    pub(super) len: usize,
    /// In granules; 1 when any granule will do.
    pub(super) align: usize,
    /// The address of a block's payload when the block starts at granule 0.
    pub(super) first_payload: usize,
    /// No gap in front of a block is shorter than this, because it is a hole.
    pub(super) min_gap: usize,
}

impl Need {
    pub(super) fn new(heap: &Oracle, granules: usize, align: usize) -> Need {
        let granule = heap.rules.granule as usize;
        Need {
            len: granules.saturating_add(heap.header()),
            align: (align / granule).max(1),
            first_payload: heap.rules.phase / granule + heap.header(),
            min_gap: heap.min_remainder(),
        }
    }

    /// The shortest front gap for a block in a hole at `start`: none, or one that can be a hole, behind which the
    /// payload is aligned.
    pub(super) fn gap(&self, start: usize) -> usize {
        let beyond = start.wrapping_add(self.first_payload) % self.align;
        if beyond == 0 {
            return 0;
        }
        let gap = self.align - beyond;
        gap + self.min_gap.saturating_sub(gap).div_ceil(self.align) * self.align
    }

    /// No front gap is longer than this, wherever a hole starts.
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
