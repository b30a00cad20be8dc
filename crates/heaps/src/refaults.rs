//! Pages that were used again soon after they were purged, and what is retained because of them.

/// Bytes that are retained for each refaulted byte: a program that refaults once does so again.
const FACTOR: usize = 4;

/// The time within which a use of purged pages is a refault, in nanoseconds.
const SOON: u64 = 100_000_000;

/// The longest time for which more is retained after a refault, in nanoseconds. A program whose memory goes up and down
/// pays for one purge in this time.
const LONGEST: u64 = 16 * SOON;

/// The refaults of a heap. Times are in nanoseconds, by the same clock.
///
/// More is retained after a refault, for some time. If what is purged then is needed again soon, that was too early,
/// and the time is twice as long from then on. A purge that was right makes it short again.
///
/// Invariant: `hold` is from `SOON` to `LONGEST`.
pub struct Refaults {
    /// Bytes purged that were not used since, and the time of the last purge.
    purged: usize,
    purged_at: u64,
    /// Bytes to retain, and the time of the last refault.
    retained: usize,
    refaulted_at: u64,
    /// For how long after that they are retained.
    hold: u64,
}

impl Refaults {
    /// Nothing was purged yet.
    pub const NONE: Refaults = Refaults { purged: 0, purged_at: 0, retained: 0, refaulted_at: 0, hold: SOON };

    /// Returns the bytes in holes that are retained because of refaults. [`Refaults::forget`] ends that.
    #[must_use]
    pub fn retained(&self) -> usize {
        self.retained
    }

    /// Whether pages that are used may be purged ones.
    #[must_use]
    pub fn are_possible(&self) -> bool {
        self.purged != 0
    }

    /// Records that `bytes` were purged.
    pub fn observe_purge(&mut self, bytes: usize, now: u64) {
        self.purged += bytes;
        self.purged_at = now;
    }

    /// Records that `bytes` are used, which are taken to be purged ones as far as there are any. At most `most` bytes
    /// are retained from now on. Returns the bytes that were purged too early.
    pub fn observe_use(&mut self, bytes: usize, most: usize, now: u64) -> usize {
        if now - self.purged_at > SOON {
            (self.purged, self.hold) = (0, SOON);
            return 0;
        }
        let again = bytes.min(self.purged);
        if again == 0 {
            return 0;
        }
        if self.retained == 0 {
            self.hold = (2 * self.hold).min(LONGEST);
        }
        self.purged -= again;
        self.retained = (self.retained + FACTOR * again).min(most);
        self.refaulted_at = now;
        again
    }

    /// Retains nothing where the last refault was long ago.
    pub fn forget(&mut self, now: u64) {
        if now - self.refaulted_at > self.hold {
            self.retained = 0;
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
            refaults.forget(now);
            if refaults.retained() < SWING {
                refaults.observe_purge(SWING, now);
                times[count] = now / MILLISECOND;
                count += 1;
            }
            now += 5 * MILLISECOND;
            if refaults.are_possible() {
                refaults.observe_use(SWING, SWING, now);
            }
            now += 5 * MILLISECOND;
        }
        times
    }

    #[test]
    fn what_is_needed_again_is_purged_more_rarely_each_time() {
        let mut refaults = Refaults::NONE;
        assert_eq!(purges(&mut refaults, 0, 1600 * MILLISECOND), [0, 210, 620, 1430, 0, 0]);
    }

    #[test]
    fn a_purge_that_was_right_makes_the_time_short_again() {
        let mut refaults = Refaults::NONE;
        purges(&mut refaults, 0, 1200 * MILLISECOND);
        refaults.forget(2000 * MILLISECOND);
        assert_eq!(refaults.retained(), 0);
        refaults.observe_purge(SWING, 2000 * MILLISECOND);
        assert_eq!(refaults.observe_use(SWING, SWING, 2101 * MILLISECOND), 0);
        assert!(!refaults.are_possible() && refaults.retained() == 0);
        assert_eq!(purges(&mut refaults, 3000 * MILLISECOND, 3800 * MILLISECOND), [3000, 3210, 3620, 0, 0, 0]);
    }

    #[test]
    fn no_more_is_retained_than_may_be() {
        let mut refaults = Refaults::NONE;
        for _ in 0..100 {
            refaults.observe_purge(SWING, 0);
            assert_eq!(refaults.observe_use(2 * SWING, 7 * SWING, 0), SWING, "no more is used again than was purged");
        }
        assert_eq!(refaults.retained(), 7 * SWING);
    }
}
