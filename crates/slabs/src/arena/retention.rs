//! How much free memory the page heap retains instead of purging it.

use heapwright_heaps::{FirstFit, GrowingHeap, Refaults};
use heapwright_os::coarse_nanoseconds;

use crate::scarcity;

/// Bytes in holes that are not worth a system call. A process that has not needed more again retains no more.
pub(super) const FEWEST: usize = 128 << 10;

/// Bytes in holes that are retained at least in a process that needed purged pages again soon, and for each byte of
/// these until then.
const LEAST: usize = 1 << 20;
const LEAST_FACTOR: usize = 4;

/// The most bytes that are retained above that because of refaults, in a process that has not used more lately.
const MOST_FOR_REFAULTS: usize = 256 << 20;

/// The part of the heap that is retained if that is more, unless it is more than [`USED_PART`].
const HEAP_PART: usize = 16;

/// The part of the bytes in use that is retained at most.
const USED_PART: usize = 8;

/// The part of the heap that lies behind the last block, at least, when that is unmapped, and the least number of
/// bytes: it may have to be mapped again.
const RETRACTED_PART: usize = 4;
const LEAST_RETRACTED: usize = 4 << 20;

/// The bytes that are purged at a time, behind the arena's lock.
pub(super) const PART: usize = 2 << 20;

/// The amount to retain, adapted to refaults: pages that are requested soon after they were purged were purged too
/// early, and for some time more is retained. What is requested later costs a page fault each time, and is in no page
/// meanwhile.
pub(super) struct Retention {
    /// Bytes purged, at the last observation.
    total: u64,
    refaults: Refaults,
    /// Bytes that are retained at least: [`FEWEST`] at first, and more with each refault, up to [`LEAST`].
    least: usize,
    /// The most and the least bytes in use since holes were looked at, and when that was.
    most_used: usize,
    least_used: usize,
    looked_at: u64,
    /// Bytes of holes that were not used since, to be purged.
    unused: usize,
    /// Whether frees purge nothing: all holes are going to be purged.
    is_held: bool,
}

impl Retention {
    pub(super) const NONE: Retention = Retention {
        total: 0,
        refaults: Refaults::NONE,
        least: FEWEST,
        most_used: 0,
        least_used: 0,
        looked_at: 0,
        unused: 0,
        is_held: false,
    };

    /// Retains everything until [`Retention::let_go`].
    pub(super) fn hold(&mut self, pages: &mut GrowingHeap<FirstFit>) {
        self.is_held = true;
        self.apply(pages);
    }

    /// Retains what it did before [`Retention::hold`].
    pub(super) fn let_go(&mut self, pages: &mut GrowingHeap<FirstFit>) {
        self.is_held = false;
        self.apply(pages);
    }

    /// Observes that `bytes` of pages have been placed.
    pub(super) fn observe_placement(&mut self, bytes: usize, pages: &mut GrowingHeap<FirstFit>) {
        self.most_used = self.most_used.max(used(pages));
        if self.refaults.are_possible() {
            let most = MOST_FOR_REFAULTS.max(self.most_used);
            let again = self.refaults.observe_use(bytes, most, coarse_nanoseconds());
            self.least = (self.least + LEAST_FACTOR * again).min(LEAST);
            self.apply(pages);
        }
    }

    /// Observes that pages have been freed, of which some may have been purged.
    pub(super) fn observe_free(&mut self, pages: &mut GrowingHeap<FirstFit>) {
        self.least_used = self.least_used.min(used(pages));
        if self.refaults.retained() != 0 {
            self.refaults.forget(coarse_nanoseconds());
        }
        self.apply(pages);
        self.observe_purge(pages);
    }

    /// Purges a part of the holes that were not used for a `period` of nanoseconds; returns whether there are more.
    pub(super) fn decay(&mut self, now: u64, period: u64, pages: &mut GrowingHeap<FirstFit>) -> bool {
        if now.saturating_sub(self.looked_at) >= period {
            self.looked_at = now;
            let needed = self.most_used.saturating_sub(self.least_used);
            (self.most_used, self.least_used) = (used(pages), used(pages));
            // What was in use at one time and free at another is needed again.
            let unused = pages.pending().saturating_sub(needed);
            self.unused = if unused > FEWEST { unused } else { 0 };
        }
        if self.unused == 0 {
            return false;
        }
        let part = self.unused.min(PART);
        pages.trim_some(part);
        self.unused = (self.unused - part).min(pages.pending());
        self.observe_purge(pages);
        self.unused != 0
    }

    /// Purges a part of the holes after a thread has ended, if they are more than what is in use, also what is retained
    /// because of refaults: the thread's work was done in what is free now. Returns whether it did.
    pub(super) fn purge_after_thread(&mut self, pages: &mut GrowingHeap<FirstFit>) -> bool {
        if pages.pending() <= used(pages).max(LEAST) {
            return false;
        }
        pages.trim_some(PART);
        self.observe_purge(pages);
        true
    }

    /// What was purged behind the last block need not be mapped: limits on address space and data count it. It is
    /// unmapped when no more is to be purged there, for that would take long.
    fn observe_purge(&mut self, pages: &mut GrowingHeap<FirstFit>) {
        let total = pages.returns().bytes;
        if total != self.total {
            if pages.pending() < LEAST {
                pages.retract((pages.top() / RETRACTED_PART).max(LEAST_RETRACTED));
            }
            self.refaults.observe_purge((total - self.total) as usize, coarse_nanoseconds());
            self.total = total;
        }
    }

    fn apply(&self, pages: &mut GrowingHeap<FirstFit>) {
        if self.is_held {
            return pages.set_keep(usize::MAX);
        }
        if scarcity::purges_at_once() {
            return pages.set_keep(FEWEST);
        }
        let part = (pages.top() / HEAP_PART).min(used(pages) / USED_PART);
        pages.set_keep(part.max(self.least + self.refaults.retained()));
    }
}

/// Returns the bytes in use.
fn used(pages: &GrowingHeap<FirstFit>) -> usize {
    pages.counters().map_or(0, |counters| counters.live as usize)
}
