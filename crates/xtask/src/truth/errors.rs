//! How far predictions are from what is real.

use heapwright_stats::{quantile, sorted};

/// The errors of many predictions.
#[derive(Clone, Debug, PartialEq)]
pub struct Errors {
    /// Their number.
    pub count: usize,
    /// Figures without a prediction.
    pub unknown: usize,
    /// Half of the errors are at most this.
    pub median: f64,
    /// Nine of ten.
    pub p90: f64,
    /// The greatest.
    pub worst: f64,
    /// Of which program and allocator.
    pub worst_of: String,
}

impl Errors {
    /// Summarises errors, each with its name; without their signs. `None` without any.
    pub fn of(errors: impl Iterator<Item = (String, Option<f64>)>) -> Option<Errors> {
        let all: Vec<(String, Option<f64>)> = errors.collect();
        let known: Vec<(&String, f64)> =
            all.iter().filter_map(|(name, error)| Some((name, error.as_ref()?.abs()))).collect();
        let (worst_of, worst) = known.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let values = sorted(&known.iter().map(|(_, error)| *error).collect::<Vec<f64>>());
        Some(Errors {
            count: known.len(),
            unknown: all.len() - known.len(),
            median: quantile(&values, 0.5)?,
            p90: quantile(&values, 0.9)?,
            worst: *worst,
            worst_of: (*worst_of).clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_count_without_their_signs_and_what_is_not_known_is_counted_apart() {
        let named = |(at, error): (usize, Option<f64>)| (format!("program {at}"), error);
        let values = [Some(0.1), Some(-0.5), Some(0.0), None, Some(0.2), Some(-0.3)];
        let errors = Errors::of(values.into_iter().enumerate().map(named)).unwrap();
        assert_eq!((errors.count, errors.unknown, errors.median, errors.worst), (5, 1, 0.2, 0.5));
        assert!((errors.p90 - 0.42).abs() < 1e-9, "between 0.3 and 0.5");
        assert_eq!(errors.worst_of, "program 1");
        assert_eq!(Errors::of([("x".to_owned(), None)].into_iter()), None);
    }
}
