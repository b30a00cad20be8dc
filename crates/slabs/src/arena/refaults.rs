//! Pages that were requested again soon after they were purged, and what is retained because of them.

/// Bytes in holes that are not worth a system call. A process that has not needed more again retains no more.
pub(super) const FEWEST: usize = 128 << 10;

/// Bytes in holes that are retained at least in a process that needed purged pages again soon.
pub(super) const LEAST: usize = 1 << 20;

/// The most bytes that are retained above that, in a process that has not used more lately.
const MOST: usize = 256 << 20;

/// Bytes that are retained for each refaulted byte: a program that refaults once does so again.
const FACTOR: usize = 4;

/// The time within which a request for purged pages is a refault, in nanoseconds.
const SOON: u64 = 100_000_000;

/// The longest time for which more is retained after a refault, in nanoseconds. A program whose memory goes up and down
/// pays for one purge in this time.
const LONGEST: u64 = 4 * SOON;

/// The refaults of a process. Times are in nanoseconds, by the same clock.
///
/// More is retained after a refault, for some time. If what is purged then is needed again soon, that was too early,
/// and the time is twice as long from then on. A purge that was right makes it short again.
///
/// Invariant: `hold` is from [`SOON`] to [`LONGEST`].
pub(super) struct Refaults {
    /// Bytes purged that were not requested since, and the time of the last purge.
    purged: usize,
    purged_at: u64,
    /// Bytes that are retained at least: [`FEWEST`] at first, and more with each refault, up to [`LEAST`].
    least: usize,
    /// Bytes to retain above that, and the time of the last refault.
    more: usize,
    refaulted_at: u64,
    /// For how long after that they are retained.
    hold: u64,
}

impl Refaults {
    pub(super) const NONE: Refaults =
        Refaults { purged: 0, purged_at: 0, least: FEWEST, more: 0, refaulted_at: 0, hold: SOON };

    /// Returns the bytes in holes that are retained.
    pub(super) fn retained(&self) -> usize {
        self.least + self.more
    }

    /// Whether a request may be for purged pages.
    pub(super) fn are_possible(&self) -> bool {
        self.purged != 0
    }

    /// Whether more is retained for some time, which [`Refaults::forget`] ends.
    pub(super) fn are_remembered(&self) -> bool {
        self.more != 0
    }

    /// Records that `bytes` were purged.
    pub(super) fn observe_purge(&mut self, bytes: usize, now: u64) {
        self.purged += bytes;
        self.purged_at = now;
    }

    /// Records a request for `bytes`, which are taken to be purged ones as far as there are any. `most_used` are the
    /// most bytes that were in use lately.
    pub(super) fn observe_request(&mut self, bytes: usize, most_used: usize, now: u64) {
        if now - self.purged_at > SOON {
            (self.purged, self.hold) = (0, SOON);
            return;
        }
        if self.more == 0 {
            self.hold = (2 * self.hold).min(LONGEST);
        }
        let again = bytes.min(self.purged);
        self.purged -= again;
        self.least = (self.least + FACTOR * again).min(LEAST);
        self.more = (self.more + FACTOR * again).min(MOST.max(most_used));
        self.refaulted_at = now;
    }

    /// Retains no more than before where the last refault was long ago.
    pub(super) fn forget(&mut self, now: u64) {
        if now - self.refaulted_at > self.hold {
            self.more = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: u64 = 1_000_000;
    const SWING: usize = 50 << 20;

    /// Lets memory go down by [`SWING`] and up again every 10 ms until `end`. Returns the times of the first purges.
    fn purges(refaults: &mut Refaults, mut now: u64, end: u64) -> [u64; 6] {
        let (mut times, mut count) = ([0; 6], 0);
        while now < end {
            if refaults.are_remembered() {
                refaults.forget(now);
            }
            if refaults.retained() < SWING {
                refaults.observe_purge(SWING, now);
                times[count] = now / MILLISECOND;
                count += 1;
            }
            now += 5 * MILLISECOND;
            if refaults.are_possible() {
                refaults.observe_request(SWING, SWING, now);
            }
            now += 5 * MILLISECOND;
        }
        times
    }

    #[test]
    fn what_is_needed_again_is_purged_more_rarely_each_time() {
        let mut refaults = Refaults::NONE;
        assert_eq!(purges(&mut refaults, 0, 1600 * MILLISECOND), [0, 210, 620, 1030, 1440, 0]);
    }

    #[test]
    fn a_purge_that_was_right_makes_the_time_short_again() {
        let mut refaults = Refaults::NONE;
        purges(&mut refaults, 0, 1200 * MILLISECOND);
        refaults.forget(2000 * MILLISECOND);
        assert_eq!(refaults.retained(), LEAST);
        refaults.observe_purge(SWING, 2000 * MILLISECOND);
        refaults.observe_request(SWING, SWING, 2101 * MILLISECOND);
        assert!(!refaults.are_possible() && !refaults.are_remembered());
        assert_eq!(purges(&mut refaults, 3000 * MILLISECOND, 3800 * MILLISECOND), [3000, 3210, 3620, 0, 0, 0]);
    }

    #[test]
    fn no_more_is_retained_than_was_in_use() {
        for most_used in [SWING, 1000 << 20] {
            let mut refaults = Refaults::NONE;
            for _ in 0..100 {
                refaults.observe_purge(SWING, 0);
                refaults.observe_request(SWING, most_used, 0);
            }
            assert_eq!(refaults.retained(), most_used.max(MOST) + LEAST);
        }
    }
}
