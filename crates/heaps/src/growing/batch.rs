//! Pages in holes that are purged together: by one system call where the system has it, so that other threads are
//! interrupted, and wait for the heap, once for many holes.

use core::ptr::NonNull;

use heapwright_os::{PageRange, purge_all, purges_by_vectors};

/// Ranges of pages in holes.
pub(super) struct Batch {
    ranges: [PageRange; Batch::MOST],
    count: usize,
    /// The ranges that were added.
    pub(super) runs: u64,
    /// The bytes that were purged.
    pub(super) purged: usize,
    /// What was purged, as weighed before.
    pub(super) weighed: usize,
    weigh: fn(&PageRange) -> usize,
}

impl Batch {
    const MOST: usize = 32;

    /// An empty batch, whose ranges are weighed before they are purged.
    pub(super) fn weighed_by(weigh: fn(&PageRange) -> usize) -> Batch {
        let ranges = [PageRange { start: NonNull::dangling(), length: 0 }; Batch::MOST];
        Batch { ranges, count: 0, runs: 0, purged: 0, weighed: 0, weigh }
    }

    /// Adds a range; purges what is there if it is full then, or no larger batch is of use.
    ///
    /// # Safety
    /// As [`Batch::purge`], until it was purged.
    pub(super) unsafe fn add(&mut self, range: PageRange) {
        self.ranges[self.count] = range;
        self.count += 1;
        self.runs += 1;
        if self.count == Batch::MOST || !purges_by_vectors() {
            // SAFETY: as this function requires.
            unsafe { self.purge() };
        }
    }

    /// Purges the ranges.
    ///
    /// # Safety
    /// They are private anonymous memory, whole pages, whose contents are not needed.
    pub(super) unsafe fn purge(&mut self) {
        let mut weights = [0; Batch::MOST];
        let ranges = &self.ranges[..self.count];
        weights.iter_mut().zip(ranges).for_each(|(weight, range)| *weight = (self.weigh)(range));
        // SAFETY: as this function requires.
        unsafe {
            purge_all(ranges, |index| {
                self.purged += ranges[index].length;
                self.weighed += weights[index];
            });
        }
        self.count = 0;
    }
}
