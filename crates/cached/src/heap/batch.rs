//! Purging of idle pages of many slabs at once: the runs of pages are collected, and purged together.

use core::ptr::NonNull;

use heapwright_os::{PageRange, purge_all, purges_by_vectors};

use super::slabs::Slabs;
use crate::arena::ARENA;
use crate::classes::PAGE;

/// Runs of idle pages of slabs whose heap is locked until they are purged.
pub(super) struct Batch {
    ranges: [PageRange; Batch::MOST],
    /// The slab and the run in it of each range.
    runs: [(u32, (usize, usize)); Batch::MOST],
    count: usize,
    /// The pages that were purged.
    pub(super) purged: u32,
}

impl Batch {
    const MOST: usize = 32;

    pub(super) const EMPTY: Batch = Batch {
        ranges: [PageRange { start: NonNull::dangling(), length: 0 }; Batch::MOST],
        runs: [(0, (0, 0)); Batch::MOST],
        count: 0,
        purged: 0,
    };
}

impl Slabs {
    /// Adds the idle pages of a slab to a batch; purges the batch when it is full, or no larger one
    /// is of use. Returns how many pages were added.
    pub(super) fn add_idle(&mut self, number: u32, batch: &mut Batch) -> u32 {
        let idle = self.own.slab(number).idle_pages();
        for run in self.own.slab(number).idle_runs() {
            if batch.count == Batch::MOST {
                self.purge_batch(batch);
            }
            let Some(start) = NonNull::new(ARENA.start_of(number).wrapping_add(run.0 * PAGE)) else { continue };
            batch.ranges[batch.count] = PageRange { start, length: run.1 * PAGE };
            batch.runs[batch.count] = (number, run);
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
        // SAFETY: no block that is out overlaps these pages, their lists are cleared in this call, and the heap has been
        // locked since the runs were found.
        unsafe {
            purge_all(&ranges[..*count], |index| {
                let (number, run) = runs[index];
                *purged += self.own.slab(number).record_purged(run);
            });
        }
        *count = 0;
    }
}
