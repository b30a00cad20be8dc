//! The statistics of all tables: medians and their intervals, quantiles, means, noise.

mod estimate;
pub mod noise;
mod order;

use serde::{Deserialize, Serialize};

pub use self::estimate::{Estimate, paired_ratios};
pub use self::order::{FEWEST, enough_for, fewest_for};

/// The median and the quartiles of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The first quartile: a quarter of the values lies below it.
    pub low: f64,
    /// The median: half of the values lie below it.
    pub median: f64,
    /// The third quartile: a quarter of the values lies above it.
    pub high: f64,
}

impl Spread {
    /// Returns the median and quartiles of `values`, or `None` for an empty sample.
    pub fn of(values: &[f64]) -> Option<Spread> {
        let sorted = sorted(values);
        Some(Spread { low: quantile(&sorted, 0.25)?, median: quantile(&sorted, 0.5)?, high: quantile(&sorted, 0.75)? })
    }
}

/// Returns the median of `values`, or `None` for an empty sample.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(&sorted(values), 0.5)
}

/// Returns `values` in ascending order.
pub fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Returns the quantile `at` (0 to 1) of `sorted`, which is in ascending order, or `None` for an empty sample.
/// Interpolates linearly between neighbours.
pub fn quantile(sorted: &[f64], at: f64) -> Option<f64> {
    let position = at.clamp(0.0, 1.0) * sorted.len().checked_sub(1)? as f64;
    let (below, above) = (sorted[position.floor() as usize], sorted[position.ceil() as usize]);
    Some(below + (above - below) * position.fract())
}

/// Returns the percentile rank of `value` in `sorted`, which is in ascending order: the share of values below it, with
/// equal values counted half. From 0 to 1; `None` for an empty sample.
pub fn rank(sorted: &[f64], value: f64) -> Option<f64> {
    let below = sorted.partition_point(|&other| other < value);
    let not_above = sorted.partition_point(|&other| other <= value);
    (!sorted.is_empty()).then(|| (below + not_above) as f64 / (2 * sorted.len()) as f64)
}

/// Returns the arithmetic mean, or `None` for an empty sample.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns the geometric mean of positive `values`; `None` for an empty sample.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    let logarithms: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    mean(&logarithms).map(f64::exp)
}

/// Returns the standard error of the mean of `values`, or `None` for fewer than two values.
pub fn standard_error(values: &[f64]) -> Option<f64> {
    let (mean, others) = (mean(values)?, values.len().checked_sub(1).filter(|&others| others > 0)?);
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / others as f64;
    Some((variance / values.len() as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_interpolate() {
        let values = sorted(&[4.0, 1.0, 3.0, 2.0]);
        assert_eq!(quantile(&values, 0.5), Some(2.5));
        assert_eq!(quantile(&values, 1.0), Some(4.0));
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(Spread::of(&[5.0, 1.0, 3.0]), Some(Spread { low: 2.0, median: 3.0, high: 4.0 }));
    }

    #[test]
    fn the_standard_error_shrinks_with_the_root_of_the_number() {
        assert_eq!(standard_error(&[1.0, 3.0]), Some(1.0));
        assert_eq!(standard_error(&[1.0, 3.0, 1.0, 3.0, 2.0]).map(|error| (error * error * 5.0).round()), Some(1.0));
        assert_eq!(standard_error(&[1.0]), None);
    }

    #[test]
    fn the_geometric_mean_of_a_ratio_and_its_inverse_is_one() {
        assert!((geometric_mean(&[4.0, 0.25, 1.0]).unwrap() - 1.0).abs() < 1e-12);
        assert_eq!(geometric_mean(&[]), None);
    }

    #[test]
    fn equal_values_rank_in_their_middle() {
        assert_eq!(rank(&[1.0, 2.0, 2.0, 3.0], 2.0), Some(0.5));
        assert_eq!(rank(&[1.0, 2.0], 0.0), Some(0.0));
        assert_eq!(rank(&[], 0.0), None);
    }
}
