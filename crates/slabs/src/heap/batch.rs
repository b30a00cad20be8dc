//! Purging of idle pages of many slabs at once: the runs of pages are collected, and purged together.

use core::ptr::NonNull;

use heapwright_os::{PageRange, purge_all, purges_by_vectors};

use super::slabs::Slabs;
use crate::arena::ARENA;
use crate::classes::PAGE;

/// Runs of idle pages of slabs whose heap is locked until they are purged.
pub(super) struct Batch {
    ranges: [PageRange; Batch::MOST],
    /// The slab of each range, and the first page and the length of the run in it.
    runs: [(u32, u8, u8); Batch::MOST],
    count: usize,
    /// The pages that were purged.
    pub(super) purged: u32,
}

impl Batch {
    const MOST: usize = 32;

    pub(super) const EMPTY: Batch = Batch {
        ranges: [PageRange { start: NonNull::dangling(), length: 0 }; Batch::MOST],
        runs: [(0, 0, 0); Batch::MOST],
        count: 0,
        purged: 0,
    };
}

impl Slabs {
    /// Adds the idle pages of a slab to a batch; purges the batch when it is full, or no larger one
    /// is of use. Returns how many pages were added.
    pub(super) fn add_idle(&mut self, number: u32, batch: &mut Batch) -> u32 {
        let idle = self.own.slab(number).idle_pages();
        for (first, length) in self.own.slab(number).idle_runs() {
            if batch.count == Batch::MOST {
                self.purge_batch(batch);
            }
            let Some(start) = NonNull::new(ARENA.start_of(number).wrapping_add(first * PAGE)) else { continue };
            batch.ranges[batch.count] = PageRange { start, length: length * PAGE };
            batch.runs[batch.count] = (number, first as u8, length as u8);
            batch.count += 1;
        }
        if !purges_by_vectors() {
            self.purge_batch(batch);
        }
        idle
    }

    /// Purges what is in a batch.
    pub(super) fn purge_batch(&mut self, batch: &mut Batch) {
        let Batch { ranges, runs, count, purged } = batch;
        // SAFETY: no block that is out overlaps these pages, their lists are cleared in this call, and the heap has
        // been locked since the runs were found.
        unsafe {
            purge_all(&ranges[..*count], |index| {
                let (number, first, length) = runs[index];
                *purged += self.own.slab(number).record_purged(first.into(), length.into());
            });
        }
        *count = 0;
    }
}
