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
}

impl Batch {
    const MOST: usize = 32;

    pub(super) const EMPTY: Batch = Batch {
        ranges: [PageRange { start: NonNull::dangling(), length: 0 }; Batch::MOST],
        count: 0,
        runs: 0,
        purged: 0,
    };

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
        let ranges = &self.ranges[..self.count];
        // SAFETY: as this function requires.
        unsafe { purge_all(ranges, |index| self.purged += ranges[index].length) };
        self.count = 0;
    }
}
