//! Pages in holes that are purged together.

use heapwright_os::{PageRange, PurgeBatch};

/// Ranges of pages in holes.
pub(super) struct Batch {
    ranges: PurgeBatch<usize>,
    /// The ranges that were added.
    pub(super) runs: u64,
    /// The bytes that were purged.
    pub(super) purged: usize,
    /// What was purged, as weighed before.
    pub(super) weighed: usize,
    weigh: fn(&PageRange) -> usize,
}

impl Batch {
    /// An empty batch, whose ranges are weighed before they are purged.
    pub(super) fn weighed_by(weigh: fn(&PageRange) -> usize) -> Batch {
        Batch { ranges: PurgeBatch::new(), runs: 0, purged: 0, weighed: 0, weigh }
    }

    /// Adds a range; purges what is there if it is full then, or no larger batch is of use.
    ///
    /// # Safety
    /// As [`Batch::purge`], until it was purged.
    pub(super) unsafe fn add(&mut self, range: PageRange) {
        self.runs += 1;
        if self.ranges.add(range, (self.weigh)(&range)) {
            // SAFETY: as this function requires.
            unsafe { self.purge() };
        }
    }

    /// Purges the ranges.
    ///
    /// # Safety
    /// They are private anonymous memory, whole pages, whose contents are not needed.
    pub(super) unsafe fn purge(&mut self) {
        // SAFETY: as this function requires.
        unsafe {
            self.ranges.purge(|range, weight| {
                self.purged += range.length;
                self.weighed += weight;
            });
        }
    }
}
