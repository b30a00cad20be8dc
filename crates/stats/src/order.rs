//! Exact confidence intervals of a median, from one order statistic of the measurements to another.
//!
//! The k-th least of `n` measurements lies above the true median only if fewer than k of them lie below it. Each does
//! so with probability 1/2, so that their number is binomial, whatever the distribution of the measurements. From the
//! k-th least to the k-th greatest, an interval thus misses the median with probability `2 P(B(n, 1/2) < k)`, or less
//! if measurements can be equal.

use crate::sorted;

/// With fewer measurements there is no interval: even from the least to the greatest of five, the interval would miss
/// the true median more than once in twenty times.
pub const FEWEST: usize = 6;

/// The share of 95 % intervals that miss.
pub const MISSES: f64 = 0.05;

/// Sums of probabilities are rounded; without this, six measurements would not suffice for exactly 2/64.
const ROUNDING: f64 = 1e-9;

/// Returns the narrowest symmetric interval of order statistics that misses the median of `values` with probability
/// `misses` at most; `None` when the least and the greatest are not far enough apart for that, or with fewer than
/// [`FEWEST`] values.
pub fn interval(values: &[f64], misses: f64) -> Option<[f64; 2]> {
    let rank = rank(values.len(), misses)?;
    let sorted = sorted(values);
    Some([sorted[rank - 1], sorted[sorted.len() - rank]])
}

/// Returns the smallest number of measurements that have an interval when `comparisons` intervals together may miss in
/// 5 % of all cases: six for one interval, eleven for thirty.
pub fn fewest_for(comparisons: usize) -> usize {
    fewest_of_rank(1, comparisons)
}

/// Returns the smallest number of measurements whose intervals do not reach to the least and the greatest, for the same
/// number of comparisons: one measurement that went astray does not decide then.
pub fn enough_for(comparisons: usize) -> usize {
    fewest_of_rank(2, comparisons)
}

fn fewest_of_rank(least: usize, comparisons: usize) -> usize {
    let misses = MISSES / comparisons.max(1) as f64;
    (FEWEST..).find(|&count| rank(count, misses) >= Some(least)).unwrap_or(usize::MAX)
}

/// Returns the greatest k for which the interval from the k-th least to the k-th greatest of `count` measurements
/// misses the median with probability `misses` at most.
fn rank(count: usize, misses: f64) -> Option<usize> {
    if count < FEWEST {
        return None;
    }
    let allowed = misses / 2.0 * (1.0 + ROUNDING);
    // Logarithms: 2 to the power of minus thousands is too small for a number.
    let mut probability = -(count as f64) * std::f64::consts::LN_2;
    let mut below = 0.0;
    let mut rank = 0;
    while rank < count / 2 {
        below += probability.exp();
        if below > allowed {
            break;
        }
        probability += ((count - rank) as f64 / (rank + 1) as f64).ln();
        rank += 1;
    }
    (rank > 0).then_some(rank)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the probability that the interval of `count` measurements at `rank` holds the median.
    fn coverage(count: usize, rank: usize) -> f64 {
        let mut ways = 1.0;
        let mut below = 0.0;
        for at in 0..rank {
            below += ways;
            ways *= (count - at) as f64 / (at + 1) as f64;
        }
        1.0 - 2.0 * below / 2_f64.powi(count as i32)
    }

    #[test]
    fn ranks_are_those_of_the_tables() {
        for (count, expected) in [(6, 1), (8, 1), (9, 2), (11, 2), (12, 3), (15, 4), (20, 6), (25, 8), (30, 10)] {
            assert_eq!(rank(count, MISSES), Some(expected), "{count}");
        }
        assert!((coverage(6, 1) - 0.96875).abs() < 1e-12);
    }

    #[test]
    fn intervals_cover_what_they_claim_and_a_narrower_one_would_not() {
        for misses in [0.05, 0.025, 0.05 / 26.0] {
            for count in (6..=100).filter(|&count| rank(count, misses).is_some()) {
                let rank = rank(count, misses).unwrap();
                assert!(coverage(count, rank) >= 1.0 - misses - 1e-12, "{count} measurements, {misses}");
                assert!(coverage(count, rank + 1) < 1.0 - misses, "{count} measurements, {misses}");
            }
        }
    }

    #[test]
    fn more_comparisons_take_more_rounds() {
        let fewest = [1, 2, 16, 26, 30].map(fewest_for);
        assert_eq!(fewest, [6, 7, 10, 11, 11]);
        assert_eq!(fewest_for(0), FEWEST);
        assert_eq!([1, 16, 26].map(enough_for), [9, 14, 14]);
    }

    #[test]
    fn six_reach_from_the_least_to_the_greatest_and_five_have_no_interval() {
        assert_eq!(interval(&[3.0, 1.0, 2.0, 6.0, 5.0, 4.0], MISSES), Some([1.0, 6.0]));
        assert_eq!(interval(&[1.0; 5], MISSES), None);
        assert_eq!(interval(&[1.0; 6], MISSES / 2.0), None);
    }

    #[test]
    fn thousands_of_measurements_have_a_narrow_interval() {
        let values: Vec<f64> = (0..10_000).map(f64::from).collect();
        assert_eq!(interval(&values, MISSES), Some([4901.0, 5098.0]));
    }
}
