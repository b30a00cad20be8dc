//! Purging of idle pages of many slabs at once: the runs of pages are collected, and purged together.

use core::ptr::NonNull;

use heapwright_os::{PageRange, PurgeBatch};

use super::slabs::Slabs;
use crate::arena::ARENA;
use crate::classes::PAGE;

/// Runs of idle pages of slabs whose heap is locked until they are purged.
#[derive(Default)]
pub(super) struct Batch {
    /// With the slab of each run, the first page and the number of pages in it.
    runs: PurgeBatch<(u32, u8, u8)>,
    /// The pages that were purged.
    pub(super) purged: u32,
}

impl Slabs {
    /// Adds the idle pages of a slab to a batch; purges the batch when it is full, or no larger one
    /// is of use. Returns how many pages were added.
    pub(super) fn add_idle(&mut self, number: u32, batch: &mut Batch) -> u32 {
        let idle = self.own.slab(number).idle_pages();
        for (first, length) in self.own.slab(number).idle_runs() {
            let Some(start) = NonNull::new(ARENA.start_of(number).wrapping_add(first * PAGE)) else { continue };
            if batch.runs.add(PageRange { start, length: length * PAGE }, (number, first as u8, length as u8)) {
                self.purge_batch(batch);
            }
        }
        idle
    }

    /// Purges what is in a batch.
    pub(super) fn purge_batch(&mut self, batch: &mut Batch) {
        let Batch { runs, purged } = batch;
        // SAFETY: no block that is out overlaps these pages, their lists are cleared in this call, and the heap has
        // been locked since the runs were found.
        unsafe {
            runs.purge(|_, (number, first, length)| {
                *purged += self.own.slab(number).record_purged(first.into(), length.into());
            });
        }
    }
}
