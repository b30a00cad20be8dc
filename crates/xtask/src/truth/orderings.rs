//! Whether predictions order allocators as reality does.

use std::ops::AddAssign;

use heapwright_stats::median;

use super::figures::{Figure, Figures, Measure};

/// Peaks that differ by less than this share need not be in order.
const LEAST: f64 = 0.03;

/// Pairs of allocators that really differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Orderings {
    /// Pairs that are predicted in the right order.
    pub right: usize,
    /// Pairs in the wrong order, or predicted to be equal.
    pub wrong: usize,
    /// Pairs of which one was not predicted.
    pub unknown: usize,
}

impl AddAssign for Orderings {
    fn add_assign(&mut self, other: Orderings) {
        self.right += other.right;
        self.wrong += other.wrong;
        self.unknown += other.unknown;
    }
}

impl Orderings {
    /// Returns the orderings of a measure of one program.
    pub fn of(figures: &Figures, measure: Measure) -> Orderings {
        let mut orderings = Orderings::default();
        for (at, one) in figures.rows.iter().enumerate() {
            for other in &figures.rows[at + 1..] {
                if differ(one, other, measure) {
                    orderings.count(one, other);
                }
            }
        }
        orderings
    }

    fn count(&mut self, one: &Figure, other: &Figure) {
        let Some((first, second)) = one.predicted.zip(other.predicted) else {
            self.unknown += 1;
            return;
        };
        let is_less = one.real.median < other.real.median;
        let is_right = if is_less { first < second } else { first > second };
        if is_right { self.right += 1 } else { self.wrong += 1 }
    }

    /// Returns the number of pairs that were predicted.
    pub fn pairs(&self) -> usize {
        self.right + self.wrong
    }

    /// Returns the share of predicted pairs in the right order; `None` without any.
    pub fn share(&self) -> Option<f64> {
        (self.pairs() > 0).then(|| self.right as f64 / self.pairs() as f64)
    }

    /// Returns Kendall's tau among the predicted pairs, from -1 to 1; `None` without any.
    pub fn tau(&self) -> Option<f64> {
        self.share().map(|share| 2.0 * share - 1.0)
    }
}

/// Returns the median of Kendall's tau over programs that have pairs.
pub fn median_tau(orderings: &[Orderings]) -> Option<f64> {
    median(&orderings.iter().filter_map(Orderings::tau).collect::<Vec<f64>>())
}

/// Returns whether two allocators really differ: their intervals do not overlap, and peaks differ by more than
/// [`LEAST`].
fn differ(one: &Figure, other: &Figure, measure: Measure) -> bool {
    let is_apart = one.real.high() < other.real.low() || other.real.high() < one.real.low();
    let has_intervals = one.real.interval.is_some() && other.real.interval.is_some();
    let ratio = one.real.median / other.real.median;
    let is_enough = measure == Measure::Time || ratio.max(1.0 / ratio) > 1.0 + LEAST;
    has_intervals && is_apart && is_enough
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::figures;
    use super::*;

    #[test]
    fn pairs_that_differ_are_right_wrong_or_unknown() {
        let rows = [
            ("system", 100.0, Some(10.0)),
            ("less", 80.0, Some(9.0)),
            ("more", 120.0, Some(9.5)),
            ("close", 101.0, Some(1.0)),
            ("not predicted", 200.0, None),
        ];
        let memory = Orderings::of(&figures(&rows), Measure::Memory);
        // Right: less-system, less-more. Wrong: system-more, less-close. close-more: 1.0 is below 9.5 as it should be.
        assert_eq!(memory, Orderings { right: 3, wrong: 2, unknown: 4 });
        let time = Orderings::of(&figures(&rows), Measure::Time);
        assert_eq!(time.wrong, 3, "1 % is no difference of memory that counts, and one of time beyond the noise");
        assert_eq!(memory.share(), Some(0.6));
        assert!((memory.tau().unwrap() - 0.2).abs() < 1e-9);
    }

    #[test]
    fn equal_predictions_are_not_right() {
        let figures = figures(&[("system", 100.0, Some(5.0)), ("x", 50.0, Some(5.0))]);
        assert_eq!(Orderings::of(&figures, Measure::Memory), Orderings { right: 0, wrong: 1, unknown: 0 });
    }

    #[test]
    fn what_the_noise_hides_is_no_pair() {
        let mut figures = figures(&[("system", 100.0, Some(5.0)), ("x", 104.0, Some(4.0))]);
        figures.rows[1] = Figure::new("x", (0..10).map(|at| 94.0 + 2.2 * f64::from(at)).collect(), Some(4.0)).unwrap();
        assert_eq!(Orderings::of(&figures, Measure::Memory), Orderings::default());
        assert_eq!(Orderings::default().tau(), None);
    }

    #[test]
    fn the_median_of_tau_is_that_of_programs_with_pairs() {
        let of = |right, wrong| Orderings { right, wrong, unknown: 0 };
        assert_eq!(median_tau(&[of(4, 0), of(0, 0), of(0, 2), of(3, 1)]), Some(0.5));
        let mut sum = of(4, 0);
        sum += of(3, 1);
        assert_eq!((sum.pairs(), sum.share()), (8, Some(0.875)));
    }
}
