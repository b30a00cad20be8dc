//! How far the pages in holes are purged, and how many are retained.

use heapwright_os::coarse_nanoseconds;

use crate::refaults::Refaults;

/// The least number of bytes that are purged at a time.
pub(super) const LEAST: usize = 512 << 10;

/// Where purged pages are used again soon, this many times as much is retained of what is in use. Pages that were in a
/// hole count until a sweep, also those that are used again.
const REFAULTS_FACTOR: usize = 8;

/// How much a heap has purged so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageReturns {
    /// Number of searches for pages to purge, automatic or on request.
    pub sweeps: u64,
    /// Runs of pages purged.
    pub runs: u64,
    /// Bytes purged.
    pub bytes: u64,
}

/// The state of a heap's sweeps.
pub(super) struct Sweep {
    /// From this many pending bytes on, a free may have something to purge.
    pub(super) from: usize,
    /// Whether there were more pending bytes than are retained: all are purged, some at a time.
    pub(super) is_under_way: bool,
    refaults: Refaults,
    /// The bytes in use and those pending after the last sweep.
    used: usize,
    pending: usize,
}

impl Sweep {
    pub(super) fn beyond(keep: usize) -> Sweep {
        Sweep { from: keep, is_under_way: false, refaults: Refaults::NONE, used: 0, pending: 0 }
    }

    /// Ends what is under way: pages are purged when there are more than `keep` pending bytes.
    pub(super) fn end(&mut self, keep: usize) {
        (self.from, self.is_under_way) = (keep, false);
    }

    /// Observes what is in use and pending now. What was placed since the last sweep is in use now, or was freed and is
    /// pending. Returns what is retained because purged pages were used again, where it is usually `part`.
    pub(super) fn observe(&mut self, used: usize, pending: usize, part: usize) -> usize {
        let most = part.saturating_mul(REFAULTS_FACTOR);
        let now = coarse_nanoseconds();
        let placed = (used + pending).saturating_sub(self.used + self.pending);
        self.refaults.forget(now);
        if self.refaults.are_possible() {
            self.refaults.observe_use(placed, most, now);
        }
        (self.used, self.pending) = (used, pending);
        self.refaults.retained().min(most)
    }

    /// Records that `purged` bytes were purged and `pending` are left: the sweep goes on until they are few. In a heap
    /// that keeps `keep`.
    pub(super) fn record_purge(&mut self, purged: usize, pending: usize, keep: usize) {
        self.refaults.observe_purge(purged, coarse_nanoseconds());
        self.pending = pending;
        self.is_under_way = pending > LEAST;
        self.from = if self.is_under_way { LEAST } else { keep };
    }
}
