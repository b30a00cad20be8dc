//! Ranges of pages that are gathered and purged together: by one system call where the system has it, so that other
//! threads are interrupted, and wait for a lock, once for many.

use core::ptr::NonNull;

use crate::memory::ranges::{PageRange, purge_all, purges_by_vectors};

/// Ranges to be purged, each with a value of the caller's that says what it is.
pub struct PurgeBatch<T> {
    ranges: [PageRange; MOST],
    values: [T; MOST],
    count: usize,
}

/// The number of ranges that there is room for.
const MOST: usize = 32;

impl<T: Copy + Default> PurgeBatch<T> {
    /// Returns a batch without ranges.
    #[must_use]
    pub fn new() -> PurgeBatch<T> {
        let none = PageRange { start: NonNull::dangling(), length: 0 };
        PurgeBatch { ranges: [none; MOST], values: [T::default(); MOST], count: 0 }
    }

    /// Adds a range; returns whether the batch is to be purged before the next one: it is full, or no larger one is of
    /// use. A range for which there is no room is not purged.
    #[must_use]
    pub fn add(&mut self, range: PageRange, value: T) -> bool {
        if let Some(place) = self.ranges.get_mut(self.count) {
            *place = range;
            self.values[self.count] = value;
            self.count += 1;
        }
        self.count == MOST || !purges_by_vectors()
    }

    /// Purges the ranges, and calls `purged` with each that is, and its value. The batch is empty afterwards.
    ///
    /// # Safety
    /// They are private anonymous memory of the caller's, whole pages, whose contents are not needed.
    pub unsafe fn purge(&mut self, mut purged: impl FnMut(&PageRange, T)) {
        let ranges = &self.ranges[..self.count];
        // SAFETY: as this function requires.
        unsafe { purge_all(ranges, |index| purged(&ranges[index], self.values[index])) };
        self.count = 0;
    }
}

impl<T: Copy + Default> Default for PurgeBatch<T> {
    fn default() -> Self {
        Self::new()
    }
}
