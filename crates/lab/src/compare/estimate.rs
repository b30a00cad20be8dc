//! Medians and how sure one can be of them.

use fastrand::Rng;
use serde::{Deserialize, Serialize};

use crate::stats::{median, quantile, sorted};

/// With fewer measurements there is no interval: even from the least to the greatest of five, the interval would miss the true median
/// more than once in twenty times.
pub const FEWEST: usize = 6;

/// How often the measurements are drawn anew.
const RESAMPLES: usize = 2000;

/// The share of the resamples that lies outside the interval, half of it on each side.
const OUTSIDE: f64 = 0.05;

/// The same for everybody, so that the same measurements give the same interval.
const SEED: u64 = 1;

/// A median of measurements with its 95 % interval, or a figure that is exact and has none.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The median.
    pub median: f64,
    /// From where to where its 95 % interval reaches; `None` for an exact figure, or with fewer than [`FEWEST`] measurements.
    pub interval: Option<[f64; 2]>,
}

impl Estimate {
    /// A figure that is known.
    pub fn exact(figure: f64) -> Estimate {
        Estimate { median: figure, interval: None }
    }

    /// The median of `values`; `None` without any.
    pub fn of(values: &[f64]) -> Option<Estimate> {
        Some(Estimate { median: median(values)?, interval: interval(values.len(), |rng| median(&drawn(values, rng))) })
    }

    /// The median of the ratios of values that belong together, round by round. What disturbs a whole round disturbs both and
    /// cancels out. `None` without rounds.
    pub fn of_paired_ratios(values: &[f64], bases: &[f64]) -> Option<Estimate> {
        let ratios: Vec<f64> = values.iter().zip(bases).map(|(value, base)| value / base).collect();
        Estimate::of(&ratios)
    }

    /// The ratio of the medians of measurements that were made apart. `None` without any.
    pub fn of_ratio(values: &[f64], bases: &[f64]) -> Option<Estimate> {
        let ratio = |values: &[f64], bases: &[f64]| Some(median(values)? / median(bases)?);
        let fewest = values.len().min(bases.len());
        let resample = |rng: &mut Rng| ratio(&drawn(values, rng), &drawn(bases, rng));
        Some(Estimate { median: ratio(values, bases)?, interval: interval(fewest, resample) })
    }

    /// So many times this.
    pub fn times(&self, factor: f64) -> Estimate {
        let interval = self.interval.map(|ends| ends.map(|end| end * factor));
        Estimate { median: self.median * factor, interval }
    }

    /// The lowest that the median may be, as far as is known.
    pub fn low(&self) -> f64 {
        self.interval.map_or(self.median, |[low, _]| low)
    }

    /// The highest that the median may be.
    pub fn high(&self) -> f64 {
        self.interval.map_or(self.median, |[_, high]| high)
    }
}

/// The interval by the percentile bootstrap, of what `resample` makes of `count` measurements drawn anew.
fn interval(count: usize, mut resample: impl FnMut(&mut Rng) -> Option<f64>) -> Option<[f64; 2]> {
    if count < FEWEST {
        return None;
    }
    let mut rng = Rng::with_seed(SEED);
    let resamples: Vec<f64> = (0..RESAMPLES).filter_map(|_| resample(&mut rng)).collect();
    let resamples = sorted(&resamples);
    Some([quantile(&resamples, OUTSIDE / 2.0)?, quantile(&resamples, 1.0 - OUTSIDE / 2.0)?])
}

/// As many of `values`, each drawn from all of them.
fn drawn(values: &[f64], rng: &mut Rng) -> Vec<f64> {
    values.iter().map(|_| values[rng.usize(..values.len())]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times as machines give them: a long tail to one side. The median is 1.
    fn skewed(rng: &mut Rng) -> f64 {
        let normal: f64 = (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0;
        (0.5 * normal).exp()
    }

    fn coverage(truth: f64, mut sample: impl FnMut(&mut Rng) -> Option<Estimate>) -> f64 {
        const TRIALS: usize = 400;
        let mut rng = Rng::with_seed(7);
        let covers = |estimate: Estimate| estimate.low() <= truth && truth <= estimate.high();
        (0..TRIALS).filter(|_| sample(&mut rng).is_some_and(covers)).count() as f64 / TRIALS as f64
    }

    #[test]
    fn intervals_hold_the_true_median_about_as_often_as_they_claim() {
        for count in [FEWEST, 10, 25] {
            let share = coverage(1.0, |rng| Estimate::of(&(0..count).map(|_| skewed(rng)).collect::<Vec<_>>()));
            assert!((0.91..=0.99).contains(&share), "{count} measurements: {share}");
        }
    }

    #[test]
    fn a_disturbance_of_whole_rounds_cancels_out_of_paired_ratios() {
        let mut rng = Rng::with_seed(3);
        let (mut values, mut bases) = (Vec::new(), Vec::new());
        for _ in 0..15 {
            let round = skewed(&mut rng);
            bases.push(round * (1.0 + 0.01 * rng.f64()));
            values.push(round * 0.8 * (1.0 + 0.01 * rng.f64()));
        }
        let width = |estimate: Estimate| estimate.high() - estimate.low();
        let paired = Estimate::of_paired_ratios(&values, &bases).unwrap();
        assert!(width(paired) < 0.02 && (paired.median - 0.8).abs() < 0.01, "{paired:?}");
        assert!(width(Estimate::of_ratio(&values, &bases).unwrap()) > 5.0 * width(paired));
    }

    #[test]
    fn ratios_of_medians_measured_apart_hold_the_true_ratio() {
        let share = coverage(2.0, |rng| {
            let values: Vec<f64> = (0..12).map(|_| 2.0 * skewed(rng)).collect();
            let bases: Vec<f64> = (0..15).map(|_| skewed(rng)).collect();
            Estimate::of_ratio(&values, &bases)
        });
        assert!((0.91..=1.0).contains(&share), "{share}");
    }

    #[test]
    fn a_few_measurements_have_a_median_and_no_interval() {
        assert_eq!(Estimate::of(&[3.0, 1.0, 2.0]), Some(Estimate { median: 2.0, interval: None }));
        assert_eq!(Estimate::of(&[]), None);
        let same = Estimate::of(&[4.0; 6]).unwrap();
        assert_eq!(same.interval, Some([4.0, 4.0]));
    }

    #[test]
    fn the_same_measurements_give_the_same_interval() {
        let values: Vec<f64> = (0..20).map(|value| f64::from(value * value % 17)).collect();
        assert_eq!(Estimate::of(&values), Estimate::of(&values));
    }
}
