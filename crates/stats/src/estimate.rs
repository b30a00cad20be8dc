//! Medians and their confidence intervals.

use serde::{Deserialize, Serialize};

use crate::order::{self, FEWEST, MISSES};
use crate::{median, sorted};

/// A median of measurements with its 95 % interval, or a figure that is exact and has none.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The median.
    pub median: f64,
    /// From where to where its 95 % interval reaches; `None` for an exact figure, or with fewer than [`FEWEST`]
    /// measurements.
    pub interval: Option<[f64; 2]>,
}

impl Estimate {
    /// Returns an exact figure.
    pub fn exact(figure: f64) -> Estimate {
        Estimate { median: figure, interval: None }
    }

    /// Returns the median of `values`; `None` without any.
    pub fn of(values: &[f64]) -> Option<Estimate> {
        Estimate::one_of(1, values)
    }

    /// Returns the median of `values` with an interval that is one of `comparisons`. All of them together hold their
    /// medians in 95 % of all cases (Bonferroni), whatever they have in common.
    pub fn one_of(comparisons: usize, values: &[f64]) -> Option<Estimate> {
        let misses = MISSES / comparisons.max(1) as f64;
        Some(Estimate { median: median(values)?, interval: order::interval(values, misses) })
    }

    /// Returns the median of the ratios of values that belong together, round by round. What disturbs a whole round
    /// disturbs both and cancels out. `None` without rounds, or when a base is not positive.
    pub fn of_paired_ratios(values: &[f64], bases: &[f64]) -> Option<Estimate> {
        Estimate::of(&paired_ratios(values, bases)?)
    }

    /// Returns the ratio of the medians of measurements that were made apart. `None` without any, or when the median of
    /// the bases is not positive.
    ///
    /// The interval reaches from the lower end of one over the upper end of the other to the opposite. If both ends are
    /// those of 97.5 % intervals, both hold in 95 % of all cases, and so does the ratio. With six measurements there is
    /// no such interval, and both reach from the least to the greatest. That is enough: the ratio of `n` to `m` of them
    /// can only be missed if all of one side lie on the same side of their median, and everything of the other side is
    /// closer to its own. Of two samples, that can be true of one only, so that the probability is at most that of a
    /// single interval from the least to the greatest, `2^(1 - min(n, m))`.
    pub fn of_ratio(values: &[f64], bases: &[f64]) -> Option<Estimate> {
        let base = median(bases).filter(|&base| base > 0.0)?;
        Some(Estimate { median: median(values)? / base, interval: interval_of_ratio(values, bases) })
    }

    /// Returns this estimate, times a factor.
    pub fn times(&self, factor: f64) -> Estimate {
        let interval = self.interval.map(|ends| ends.map(|end| end * factor));
        Estimate { median: self.median * factor, interval }
    }

    /// Returns this estimate with an interval that reaches farther by this much at both ends: for an error that all
    /// measurements have in common.
    pub fn widened(&self, by: f64) -> Estimate {
        Estimate { interval: self.interval.map(|[low, high]| [low - by, high + by]), ..*self }
    }

    /// Returns the lower end of the interval, or the median without one.
    pub fn low(&self) -> f64 {
        self.interval.map_or(self.median, |[low, _]| low)
    }

    /// Returns the upper end of the interval, or the median without one.
    pub fn high(&self) -> f64 {
        self.interval.map_or(self.median, |[_, high]| high)
    }

    /// Returns whether the whole interval is below `limit`. Without an interval nothing is.
    pub fn is_below(&self, limit: f64) -> bool {
        self.interval.is_some_and(|[_, high]| high < limit)
    }

    /// Returns whether the whole interval is above `limit`. Without an interval nothing is.
    pub fn is_above(&self, limit: f64) -> bool {
        self.interval.is_some_and(|[low, _]| low > limit)
    }

    /// Returns whether a ratio is shown to be 1, but for `share` to both sides: the whole interval is that close to it.
    /// Two medians that merely cannot be told apart are not shown to be equal.
    pub fn is_one_within(&self, share: f64) -> bool {
        self.interval.is_some() && !self.may_be_above(1.0 + share) && !self.may_be_below(1.0 - share)
    }

    /// Returns whether some of the interval is above `limit`, or there is none.
    pub fn may_be_above(&self, limit: f64) -> bool {
        self.interval.is_none_or(|[_, high]| high > limit)
    }

    /// Returns whether some of the interval is below `limit`, or there is none.
    pub fn may_be_below(&self, limit: f64) -> bool {
        self.interval.is_none_or(|[low, _]| low < limit)
    }

    /// Returns how far the ends of the interval of a ratio are from 1, the greater of the two; `None` without an
    /// interval. Of the ratio of a subject to itself, this is the noise.
    pub fn distance_from_one(&self) -> Option<f64> {
        self.interval.map(|[low, high]| (high - 1.0).abs().max((1.0 - low).abs()))
    }
}

/// Returns the ratios of values that belong together; `None` when a base is not positive.
pub fn paired_ratios(values: &[f64], bases: &[f64]) -> Option<Vec<f64>> {
    values.iter().zip(bases).map(|(value, &base)| (base > 0.0).then(|| value / base)).collect()
}

fn interval_of_ratio(values: &[f64], bases: &[f64]) -> Option<[f64; 2]> {
    let at = |misses: f64| order::interval(values, misses).zip(order::interval(bases, misses));
    let is_enough = values.len().min(bases.len()) >= FEWEST;
    let extremes = || is_enough.then(|| extremes(values).zip(extremes(bases))).flatten();
    let ([low, high], [base_low, base_high]) = at(MISSES / 2.0).or_else(extremes)?;
    (base_low > 0.0).then_some([low / base_high, high / base_low])
}

/// Returns the least and the greatest of `values`.
fn extremes(values: &[f64]) -> Option<[f64; 2]> {
    let sorted = sorted(values);
    Some([*sorted.first()?, *sorted.last()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disturbance_of_whole_rounds_cancels_out_of_paired_ratios() {
        let mut rng = fastrand::Rng::with_seed(3);
        let (mut values, mut bases) = (Vec::new(), Vec::new());
        for _ in 0..15 {
            let round = 0.5 + rng.f64();
            bases.push(round * (1.0 + 0.01 * rng.f64()));
            values.push(round * 0.8 * (1.0 + 0.01 * rng.f64()));
        }
        let width = |estimate: Estimate| estimate.high() - estimate.low();
        let paired = Estimate::of_paired_ratios(&values, &bases).unwrap();
        assert!(width(paired) < 0.02 && (paired.median - 0.8).abs() < 0.01, "{paired:?}");
        assert!(width(Estimate::of_ratio(&values, &bases).unwrap()) > 5.0 * width(paired));
    }

    #[test]
    fn a_few_measurements_have_a_median_and_no_interval() {
        assert_eq!(Estimate::of(&[3.0, 1.0, 2.0]), Some(Estimate { median: 2.0, interval: None }));
        assert_eq!(Estimate::of(&[]), None);
        assert_eq!(Estimate::of(&[4.0; 6]).unwrap().interval, Some([4.0, 4.0]));
        assert_eq!(Estimate::of_ratio(&[4.0; 6], &[2.0; 5]), Some(Estimate::exact(2.0)));
    }

    #[test]
    fn one_of_many_intervals_is_wider_and_takes_more_measurements() {
        let values: Vec<f64> = (1..=12).map(f64::from).collect();
        assert_eq!(Estimate::of(&values).unwrap().interval, Some([3.0, 10.0]));
        assert_eq!(Estimate::one_of(26, &values).unwrap().interval, Some([1.0, 12.0]));
        assert_eq!(Estimate::one_of(26, &values[..10]).unwrap().interval, None);
    }

    #[test]
    fn ratios_of_medians_measured_apart_reach_from_end_to_end() {
        let values = [2.0, 2.1, 2.2, 1.9, 1.8, 2.05];
        let interval = Estimate::of_ratio(&values, &[1.0, 1.0, 1.1, 0.9, 1.0, 1.0]).unwrap().interval.unwrap();
        assert_eq!(interval, [1.8 / 1.1, 2.2 / 0.9]);
    }

    #[test]
    fn what_is_not_positive_is_no_base() {
        assert_eq!(Estimate::of_paired_ratios(&[1.0], &[0.0]), None);
        assert_eq!(Estimate::of_ratio(&[1.0], &[0.0]), None);
        assert_eq!(Estimate::of_ratio(&[1.0; 6], &[0.0, 1.0, 1.0, 1.0, 1.0, 1.0]).unwrap().interval, None);
    }

    #[test]
    fn only_whole_intervals_show_something() {
        let estimate = |low, high| Estimate { median: 1.0, interval: Some([low, high]) };
        let exact = Estimate::exact(1.0);
        assert!(estimate(0.8, 0.9).is_below(0.95) && !estimate(0.8, 1.0).is_below(0.95) && !exact.is_below(2.0));
        assert!(estimate(1.1, 1.2).is_above(1.05) && !estimate(1.0, 1.2).is_above(1.05) && !exact.is_above(0.0));
        assert!(estimate(0.96, 1.05).is_one_within(0.05) && !estimate(0.94, 1.0).is_one_within(0.05));
        assert!(!estimate(1.0, 1.06).is_one_within(0.05) && !exact.is_one_within(0.05));
        assert!(exact.may_be_above(9.0) && exact.may_be_below(0.0));
        assert_eq!(estimate(0.5, 1.25).distance_from_one(), Some(0.5));
        assert_eq!(exact.distance_from_one(), None);
    }
}
