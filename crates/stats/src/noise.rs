//! Noise: by how much figures differ that measure the same.

use crate::{mean, median, standard_error};

/// Returns the standard error of the mean of `values`, as a share of the mean; `None` with less than two values, or
/// when the mean is not positive.
pub fn relative_error(values: &[f64]) -> Option<f64> {
    Some(standard_error(values)? / mean(values).filter(|&mean| mean > 0.0)?)
}

/// Returns how far apart, as a difference of logarithms, two subjects may be in one row by chance.
///
/// This is the largest of three: `own`, how far one subject is from itself in that row; the median of `all`, the same
/// of every row; and twice the median of the relative `errors` of all subjects in that row.
pub fn of_row(own: Option<f64>, all: &[f64], errors: &[f64]) -> f64 {
    let usual = median(all).unwrap_or(0.0);
    let error = 2.0 * median(errors).unwrap_or(0.0);
    own.unwrap_or(0.0).max(usual).max(error)
}

/// Returns the difference of logarithms that `ratio` stands for: the same for a ratio and its inverse.
pub fn distance(ratio: f64) -> f64 {
    ratio.ln().abs()
}

/// Returns whether `ratio` is above 1 by more than `noise`, a difference of logarithms as of [`of_row`].
pub fn is_beyond(ratio: f64, noise: f64) -> bool {
    ratio.ln() > noise
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_shares_of_the_mean() {
        assert_eq!(relative_error(&[1.0, 3.0]), Some(0.5));
        assert_eq!(relative_error(&[0.0, 0.0]), None);
        assert_eq!(relative_error(&[1.0]), None);
    }

    #[test]
    fn the_largest_of_three_counts() {
        assert_eq!(of_row(Some(0.3), &[0.1, 0.2], &[0.1]), 0.3);
        assert_eq!(of_row(Some(0.01), &[0.1, 0.2, 0.4], &[]), 0.2);
        assert_eq!(of_row(None, &[], &[0.05, 0.1, 0.15]), 0.2);
        assert_eq!(of_row(None, &[], &[]), 0.0);
    }

    #[test]
    fn a_ratio_is_beyond_the_noise_on_one_side_only() {
        assert!(is_beyond(1.2, 0.1) && !is_beyond(1.1, 0.1) && !is_beyond(0.5, 0.1) && !is_beyond(1.0, 0.0));
        assert!((distance(2.0) - distance(0.5)).abs() < 1e-12);
    }
}
