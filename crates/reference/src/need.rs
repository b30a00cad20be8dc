//! The requirements of a request on a hole.

use super::run::Run;

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
