//! Figures of a program under each allocator: as they are, and as predicted.

use heapwright_allocators::baselines::SYSTEM_AGAIN;
use heapwright_stats::{Estimate, median};

use super::evidence::{Evidence, RealRow, RealRun};
use super::predicted::{Compared, Whole};

/// What is measured of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Peak RSS.
    Memory,
    /// Processor time.
    Time,
}

impl Measure {
    fn of_run(self, run: &RealRun) -> f64 {
        match self {
            Measure::Memory => run.peak_rss as f64,
            Measure::Time => run.cpu_seconds,
        }
    }

    fn of_prediction(self, whole: &Whole) -> Option<f64> {
        let estimate = match self {
            Measure::Memory => whole.peak,
            Measure::Time => whole.processor,
        };
        Some(estimate?.median)
    }
}

/// A figure of a program under one allocator.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The allocator's name.
    pub allocator: String,
    /// One per real run, in the order of rounds.
    pub runs: Vec<f64>,
    /// The median of these, with its interval.
    pub real: Estimate,
    /// What was predicted.
    pub predicted: Option<f64>,
}

impl Figure {
    /// Returns the figure of an allocator with runs; `None` without any.
    pub fn new(allocator: &str, runs: Vec<f64>, predicted: Option<f64>) -> Option<Figure> {
        let real = Estimate::of(&runs)?;
        Some(Figure { allocator: allocator.to_owned(), runs, real, predicted })
    }

    /// Returns the predicted figure over the real one, less 1.
    pub fn error(&self) -> Option<f64> {
        Some(self.predicted? / self.real.median - 1.0)
    }

    /// Returns this figure over that of `base`, round by round.
    pub fn over(&self, base: &Figure) -> Option<Estimate> {
        Estimate::of_paired_ratios(&self.runs, &base.runs)
    }
}

/// One measure of a program, under every allocator.
#[derive(Clone, Debug)]
pub struct Figures {
    /// The system's malloc first. The system's malloc again is not among them.
    pub rows: Vec<Figure>,
    /// The system's malloc again.
    pub again: Option<Figure>,
}

impl Figures {
    /// Returns a measure of a program.
    pub fn of(evidence: &Evidence, compared: &Compared, measure: Measure) -> Figures {
        let figure = |row: &RealRow| {
            let predicted = compared.whole(&row.name).and_then(|whole| measure.of_prediction(whole));
            let runs = row.runs.iter().map(|run| measure.of_run(run)).collect();
            Figure::new(&row.name, runs, predicted).filter(|_| row.note.is_none())
        };
        let (again, rows): (Vec<_>, Vec<_>) =
            evidence.real.iter().filter_map(figure).partition(|figure| figure.allocator == SYSTEM_AGAIN);
        Figures { rows, again: again.into_iter().next() }
    }

    /// Returns the figure of the system's malloc.
    pub fn system(&self) -> Option<&Figure> {
        self.row("system")
    }

    /// Returns the figure of an allocator.
    pub fn row(&self, name: &str) -> Option<&Figure> {
        self.rows.iter().find(|row| row.allocator == name)
    }

    /// Returns an allocator's figure over that of the system's malloc, round by round.
    pub fn over_system(&self, name: &str) -> Option<Estimate> {
        self.row(name)?.over(self.system()?)
    }

    /// Returns how far the medians of the same malloc are apart, as a share: what no prediction can be better than.
    pub fn spread(&self) -> Option<f64> {
        Some((self.again.as_ref()?.real.median / self.system()?.real.median - 1.0).abs())
    }

    /// Returns by how much runs of the same malloc may differ: the farther end of the interval of their ratio from 1.
    pub fn noise(&self) -> Option<f64> {
        self.again.as_ref()?.over(self.system()?)?.distance_from_one()
    }

    /// Returns how far single runs under the same allocator are from their median, as a share: the median of all.
    pub fn spread_of_runs(&self) -> Option<f64> {
        let distances = self.rows.iter().flat_map(|row| row.runs.iter().map(|run| (run / row.real.median - 1.0).abs()));
        median(&distances.collect::<Vec<f64>>())
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Returns a measure with these allocators: names, medians of real runs, predictions. Runs differ by 0.2 %.
    pub fn figures(rows: &[(&str, f64, Option<f64>)]) -> Figures {
        let runs = |median: f64| (0..10).map(|at| median * (1.0 + (f64::from(at) - 4.5) * 0.0004)).collect();
        let figure = |&(name, real, predicted): &(&str, f64, Option<f64>)| Figure::new(name, runs(real), predicted);
        let again = rows.first().and_then(|&(_, real, _)| Figure::new(SYSTEM_AGAIN, runs(real * 1.0002), None));
        Figures { rows: rows.iter().filter_map(figure).collect(), again }
    }

    #[test]
    fn errors_are_relative_to_what_is_real() {
        let figures = figures(&[("system", 100.0, Some(98.0)), ("x", 50.0, Some(60.0)), ("y", 10.0, None)]);
        let errors: Vec<Option<f64>> = figures.rows.iter().map(Figure::error).collect();
        assert!((errors[0].unwrap() + 0.02).abs() < 1e-9 && (errors[1].unwrap() - 0.2).abs() < 1e-9);
        assert_eq!(errors[2], None);
        assert!((figures.over_system("x").unwrap().median - 0.5).abs() < 1e-9);
        assert!((figures.spread().unwrap() - 0.0002).abs() < 1e-9);
        assert!(figures.noise().unwrap() < 0.001 && figures.spread_of_runs().unwrap() < 0.002);
    }
}
