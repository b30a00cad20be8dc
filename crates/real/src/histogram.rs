//! A histogram of latencies with buckets in a table of fixed length: exact below 64 ticks, with a relative error of at
//! most 1/64 above.

use heapwright_host::lazy::Plain;

/// Buckets for each power of two.
const STEPS: u64 = 64;
const STEPS_BITS: u32 = STEPS.trailing_zeros();
/// Times from 2^40 ticks on (minutes) share the last bucket.
const LONGEST_BITS: u32 = 40;
const BUCKETS: usize = (LONGEST_BITS - STEPS_BITS + 1) as usize * STEPS as usize;

/// A histogram of ticks. All zeroes is an empty one.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Histogram {
    counts: [u64; BUCKETS],
    longest: u64,
}

// SAFETY: a histogram consists of u64 only: all zeroes and any other bytes are valid values, and there is no padding.
unsafe impl Plain for Histogram {}

impl Histogram {
    /// Records one operation.
    #[inline(always)]
    pub fn record(&mut self, ticks: u64) {
        self.counts[bucket(ticks)] += 1;
        self.longest = self.longest.max(ticks);
    }

    /// Adds the counts of another histogram.
    pub fn add(&mut self, other: &Histogram) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(mine, others)| *mine += others);
        self.longest = self.longest.max(other.longest);
    }

    /// Returns a histogram without operations.
    pub fn empty() -> Histogram {
        Histogram { counts: [0; BUCKETS], longest: 0 }
    }

    /// Returns the longest time.
    pub fn longest(&self) -> u64 {
        self.longest
    }

    /// Returns the quantile `at` (0 to 1): the time that this share of the operations did not exceed; `None` without
    /// operations.
    pub fn quantile(&self, at: f64) -> Option<u64> {
        let all: u64 = self.counts.iter().sum();
        let rank = ((all as f64 * at).ceil() as u64).clamp(1, all.max(1));
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        Some(longest_of(found).min(self.longest))
    }
}

#[inline(always)]
fn bucket(ticks: u64) -> usize {
    let power = (63 - (ticks | 1).leading_zeros()).saturating_sub(STEPS_BITS);
    // From 64 to 127 for everything that is not below 64: the first six bits behind the leading one, and that one.
    let bucket = u64::from(power) * STEPS + (ticks >> power);
    (bucket as usize).min(BUCKETS - 1)
}

/// The longest time in a bucket.
fn longest_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let power = (bucket / STEPS).saturating_sub(1);
    ((bucket - power * STEPS + 1) << power) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_one_another_and_keep_to_their_bounds() {
        let mut before = 0;
        for ticks in (0..100_000).chain((17..40).map(|power| (1 << power) + 1)) {
            let at = bucket(ticks);
            assert!(at == before || at == before + 1 || ticks >= 100_000, "{ticks}");
            assert!(longest_of(at) >= ticks && longest_of(at) - ticks <= ticks / 64, "{ticks} in {at}");
            before = at;
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_those_of_the_operations() {
        let mut histogram = Histogram::empty();
        assert_eq!(histogram.quantile(0.5), None);
        (1..=60).for_each(|ticks| histogram.record(ticks));
        histogram.record(1_000_000);
        assert_eq!(histogram.quantile(0.5), Some(31));
        assert_eq!((histogram.quantile(1.0), histogram.longest()), (Some(1_000_000), 1_000_000));
        let mut both = Histogram::empty();
        both.add(&histogram);
        both.add(&histogram);
        assert_eq!(both.quantile(0.5), Some(31));
    }
}
