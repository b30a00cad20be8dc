//! Decay: idle pages of slabs are purged when they were not used for some time.
//!
//! A thread that fills lists purges the pages of its own slabs that were idle throughout a period. The slabs of a
//! thread that fills none are visited by others, which purge all that is idle there.

use core::sync::atomic::Ordering::Relaxed;

use heapwright_os::coarse_nanoseconds;

use super::batch::Batch;
use super::parts::Heap;
use super::slabs::Slabs;
use super::thread_heap::Owned;
use crate::scarcity;

/// Idle pages for which no system call is made.
const FEW: u32 = 8;

impl Owned {
    /// Counts that a list is filled; returns whether it is time to look at the memory of the thread.
    #[inline]
    pub fn count_filled(mut self) -> bool {
        self.cache().clock.count() | scarcity::is_due()
    }

    /// Purges the pages that were idle since the last time, if that was a `period` of nanoseconds ago; returns whether
    /// it was.
    pub fn decay(mut self, now: u64, period: u64) -> bool {
        let heap = self.heap();
        heap.active_at.store(now, Relaxed);
        let looked_at = &mut self.cache().clock.looked_at;
        if now.saturating_sub(*looked_at) < period {
            return false;
        }
        *looked_at = now;
        heap.slabs.lock().purge_unused();
        true
    }
}

impl Heap {
    /// Purges what is idle in the slabs, for a thread that has filled no list for `quiet` nanoseconds; unless they are
    /// locked.
    pub fn decay_as_visitor(&self, now: u64, quiet: u64) {
        if now.saturating_sub(self.active_at.load(Relaxed)) < quiet {
            return;
        }
        if self.visit().is_some_and(|mut slabs| slabs.is_worth_a_visit()) || self.front().inbox.is_loaded() {
            self.trim_as_visitor();
        }
    }

    /// Records that the heap's thread is active.
    pub(super) fn record_adoption(&self) {
        self.active_at.store(coarse_nanoseconds(), Relaxed);
    }
}

impl Slabs {
    /// Records how many pages are idle, after some were used.
    #[inline]
    pub(super) fn record_idle(&mut self) {
        self.least_idle = self.least_idle.min(self.pages.idle);
    }

    /// Returns whether idle pages are purged by a visitor, or remote frees collected. Pages that were purged
    /// too early are left for some visits.
    fn is_worth_a_visit(&mut self) -> bool {
        let is_worth_it = self.pages.idle > FEW + self.pages.refaulted || self.arrived.first().is_some();
        self.pages.forget_in_time();
        is_worth_it
    }

    /// Purges as many pages as were idle throughout the time since the last call. Those of the slabs that have served
    /// nothing for the longest time come first. Bounded: what is left is purged by later calls.
    #[cold]
    #[inline(never)]
    fn purge_unused(&mut self) {
        /// Slabs that are looked at.
        const SLABS: u32 = 256;
        let unused = self.least_idle;
        if unused > FEW + self.pages.refaulted {
            let mut batch = Batch::default();
            self.add_some_idle(unused, SLABS, &mut batch);
            self.purge_batch(&mut batch);
            self.record_purged(batch.purged);
        }
        self.pages.forget_in_time();
        self.least_idle = self.pages.idle;
    }
}
