//! How long single calls took. `boost.cpp` counts them in the same way.

/// Counts of durations: of each power of two of nanoseconds, in sixteenths.
pub struct Durations {
    counts: [u64; CLASSES],
    longest: u64,
}

/// Sixteenths of every power of two that a `u64` can have.
const CLASSES: usize = 64 * 16;

impl Durations {
    /// Returns no durations.
    pub fn none() -> Durations {
        Durations { counts: [0; CLASSES], longest: 0 }
    }

    /// Counts a duration, in nanoseconds.
    #[inline]
    pub fn count(&mut self, nanoseconds: u64) {
        self.counts[class_of(nanoseconds)] += 1;
        self.longest = self.longest.max(nanoseconds);
    }

    /// Returns the longest that was counted, in nanoseconds; 0 if nothing was.
    pub fn longest(&self) -> u64 {
        self.longest
    }

    /// Returns the shortest time, in nanoseconds, within which 99.9 % of what was counted ended, to within a sixteenth;
    /// 0 if nothing was counted. Time: constant.
    pub fn tail(&self) -> u64 {
        let beyond = self.counts.iter().sum::<u64>() / 1000;
        let mut seen = 0;
        let last = self.counts.iter().enumerate().rev().find(|(_, count)| {
            seen += **count;
            seen > beyond
        });
        last.map_or(0, |(class, _)| start_of(class))
    }
}

/// Returns the class of a duration. Below 32 ns each has its own.
#[inline]
fn class_of(nanoseconds: u64) -> usize {
    let power = (nanoseconds | 16).ilog2() - 3;
    (power - 1) as usize * 16 + (nanoseconds >> (power - 1)) as usize
}

/// Returns the shortest duration of a class.
fn start_of(class: usize) -> u64 {
    match class {
        0..32 => class as u64,
        _ => (16 + class as u64 % 16) << (class / 16 - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_starts_at_most_a_sixteenth_below_its_durations() {
        for power in 0..64 {
            for duration in [1_u64 << power, (1 << power) + (1 << power) / 3, u64::MAX >> power] {
                let start = start_of(class_of(duration));
                assert!(start <= duration && duration - start <= duration / 16, "{duration}: {start}");
            }
        }
    }

    #[test]
    fn one_in_a_thousand_may_take_longer() {
        let mut durations = Durations::none();
        assert_eq!(durations.tail(), 0);
        (0..9990).for_each(|_| durations.count(20));
        (0..10).for_each(|_| durations.count(1024));
        assert_eq!(durations.tail(), 20);
        durations.count(1024);
        assert_eq!(durations.tail(), 1024);
        durations.count(1030);
        assert_eq!(durations.longest(), 1030);
    }
}
