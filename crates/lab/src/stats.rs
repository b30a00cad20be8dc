//! The few statistics that tables are made of.

use serde::{Deserialize, Serialize};

/// The middle of some measurements and how far they spread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// A quarter of the measurements lies below.
    pub low: f64,
    /// Half of them lie below.
    pub median: f64,
    /// A quarter lies above.
    pub high: f64,
}

impl Spread {
    /// The spread of `values`, or `None` without any.
    pub fn of(values: &[f64]) -> Option<Spread> {
        let sorted = sorted(values);
        Some(Spread { low: quantile(&sorted, 0.25)?, median: quantile(&sorted, 0.5)?, high: quantile(&sorted, 0.75)? })
    }
}

/// The median of `values`, or `None` without any.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(&sorted(values), 0.5)
}

/// `values` in ascending order.
pub fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The value below which the share `at` (0 to 1) of ascending `sorted` values lies, interpolated between neighbours;
/// `None` without values.
pub fn quantile(sorted: &[f64], at: f64) -> Option<f64> {
    let position = at.clamp(0.0, 1.0) * sorted.len().checked_sub(1)? as f64;
    let (below, above) = (sorted[position.floor() as usize], sorted[position.ceil() as usize]);
    Some(below + (above - below) * position.fract())
}

/// The share of ascending `sorted` values that lies below `value`, values equal to it counted half; from 0 to 1.
pub fn rank(sorted: &[f64], value: f64) -> Option<f64> {
    let below = sorted.partition_point(|&other| other < value);
    let not_above = sorted.partition_point(|&other| other <= value);
    (!sorted.is_empty()).then(|| (below + not_above) as f64 / (2 * sorted.len()) as f64)
}

/// The mean; `None` without values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// How far, typically, the mean of so many `values` is from the mean of what they are drawn from; `None` with less than
/// two.
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
    fn equal_values_rank_in_their_middle() {
        assert_eq!(rank(&[1.0, 2.0, 2.0, 3.0], 2.0), Some(0.5));
        assert_eq!(rank(&[1.0, 2.0], 0.0), Some(0.0));
        assert_eq!(rank(&[], 0.0), None);
    }
}
