//! What the figures mean: ratios to the system's malloc, noise, and means over the suite.

use std::collections::BTreeMap;

use fastrand::Rng;
use serde::Serialize;

use super::contender::{Contender, Role};
use super::figures::{Measure, Row};
use crate::stats;

/// With fewer rounds, drawing them anew says nothing.
const FEWEST_ROUNDS: usize = 3;
/// How often they are drawn anew, from which seed, and the share of what comes of it that an interval leaves out.
const RESAMPLES: usize = 1000;
const SEED: u64 = 1;
const OUTSIDE: f64 = 0.05;

/// All rows, and whose cells they have. The first contender is the baseline.
#[derive(Clone, Copy)]
pub struct Suite<'a> {
    /// The columns.
    pub contenders: &'a [Contender],
    /// The workloads.
    pub rows: &'a [Row],
}

/// A geometric mean of ratios.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mean {
    /// The mean.
    pub ratio: f64,
    /// From where to where its 95 % interval reaches, with enough rounds.
    pub interval: Option<[f64; 2]>,
}

impl Suite<'_> {
    /// The contenders with that role, by their places.
    pub fn places(&self, role: Role) -> impl Iterator<Item = usize> + '_ {
        self.contenders.iter().enumerate().filter(move |(_, it)| it.role == role).map(|(at, _)| at)
    }

    /// A contender's median over the baseline's.
    pub fn ratio(&self, row: &Row, at: usize, measure: Measure) -> Option<f64> {
        let median = |at: usize| stats::median(&row.cells[at].values(measure));
        Some(median(at)? / median(0).filter(|&base| base > 0.0)?)
    }

    /// How far apart, as a difference of logarithms, two contenders may be in a row by chance. The largest of three: how far the baseline is from
    /// itself in that row, how far in the middle of all rows, and twice the standard error that is usual in that row.
    pub fn noise(&self, row: &Row, measure: Measure) -> f64 {
        let distances: Vec<f64> = self.rows.iter().filter_map(|row| self.distance(row, measure)).collect();
        let errors: Vec<f64> = row.cells.iter().filter_map(|cell| relative_error(&cell.values(measure))).collect();
        let usual = stats::median(&distances).unwrap_or(0.0);
        let error = 2.0 * stats::median(&errors).unwrap_or(0.0);
        self.distance(row, measure).unwrap_or(0.0).max(usual).max(error)
    }

    /// How far the baseline is from itself in a row.
    fn distance(&self, row: &Row, measure: Measure) -> Option<f64> {
        let again = self.places(Role::Noise).next()?;
        self.ratio(row, again, measure).map(|ratio| ratio.ln().abs())
    }

    /// The lowest ratio among those with that role.
    pub fn best(&self, row: &Row, measure: Measure, roles: &[Role]) -> Option<f64> {
        let places = roles.iter().flat_map(|&role| self.places(role));
        places.filter_map(|at| self.ratio(row, at, measure)).reduce(f64::min)
    }

    /// Rows that count for the suite and in which everybody has that measure: only these can be compared as a whole.
    pub fn common_rows(&self, measure: Measure) -> Vec<&Row> {
        let is_whole = |row: &&Row| (0..self.contenders.len()).all(|at| self.ratio(row, at, measure).is_some());
        self.rows.iter().filter(|row| row.counts_for(measure)).filter(is_whole).collect()
    }

    /// The geometric mean of a contender's ratios to the baseline over the common rows, in which every family counts once.
    pub fn mean(&self, at: usize, measure: Measure) -> Option<Mean> {
        self.mean_over(at, 0, measure)
    }

    /// As [`Suite::mean`], of its ratios to the contender `base`. A row that is run once is taken as it is.
    pub fn mean_over(&self, at: usize, base: usize, measure: Measure) -> Option<Mean> {
        let rows = self.common_rows(measure);
        let ratio = mean_of(&rows, |row| Some(self.ratio(row, at, measure)? / self.ratio(row, base, measure)?))?;
        let rounds = rows.iter().map(|row| row.cells[at].runs.len().min(row.cells[base].runs.len())).max()?;
        if rounds < FEWEST_ROUNDS || at == base {
            return Some(Mean { ratio, interval: None });
        }
        let mut rng = Rng::with_seed(SEED);
        let mut resample = || {
            mean_of(&rows, |row| {
                let median = |at: usize, rng: &mut Rng| stats::median(&drawn(&row.cells[at].values(measure), rng));
                Some(median(at, &mut rng)? / median(base, &mut rng)?)
            })
        };
        let resamples: Vec<f64> = (0..RESAMPLES).filter_map(|_| resample()).collect();
        let resamples = stats::sorted(&resamples);
        let end = |share| stats::quantile(&resamples, share);
        Some(Mean { ratio, interval: end(OUTSIDE / 2.0).zip(end(1.0 - OUTSIDE / 2.0)).map(|(low, high)| [low, high]) })
    }
}

/// The geometric mean over families of the geometric mean over the rows of each.
fn mean_of(rows: &[&Row], mut ratio: impl FnMut(&Row) -> Option<f64>) -> Option<f64> {
    let mut families: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for row in rows {
        families.entry(row.family()).or_default().push(ratio(row)?.ln());
    }
    let means: Vec<f64> = families.values().filter_map(|logarithms| stats::mean(logarithms)).collect();
    stats::mean(&means).map(f64::exp)
}

/// The standard error of the mean over the mean; `None` with less than two values.
fn relative_error(values: &[f64]) -> Option<f64> {
    Some(stats::standard_error(values)? / stats::mean(values).filter(|&mean| mean > 0.0)?)
}

/// As many of `values`, each drawn from all of them.
fn drawn(values: &[f64], rng: &mut Rng) -> Vec<f64> {
    values.iter().map(|_| values[rng.usize(..values.len())]).collect()
}

#[cfg(test)]
mod tests {
    use super::super::figures::{Cell, Figures};
    use super::*;
    use crate::allocator::Allocator;

    fn contenders() -> Vec<Contender> {
        [("system", Role::Baseline), ("ours", Role::Ours), ("peer", Role::Peer), ("again", Role::Noise)]
            .map(|(name, role)| Contender { name: name.to_owned(), allocator: Allocator::System, role })
            .to_vec()
    }

    fn row(name: &str, columns: [&[f64]; 4]) -> Row {
        let run = |&seconds: &f64| Figures { cpu_seconds: Some(seconds), ..Figures::default() };
        let cells = columns.map(|values| Cell { runs: values.iter().map(run).collect(), failure: None });
        Row { name: name.to_owned(), cells: cells.to_vec() }
    }

    #[test]
    fn every_family_counts_once() {
        let contenders = contenders();
        let mut rows: Vec<Row> =
            (0..9).map(|size| row(&format!("pair/{size}"), [&[1.0], &[4.0], &[1.0], &[1.0]])).collect();
        rows.push(row("large", [&[1.0], &[0.25], &[1.0], &[1.0]]));
        let suite = Suite { contenders: &contenders, rows: &rows };
        let mean = suite.mean(1, Measure::Cpu).unwrap();
        assert!((mean.ratio - 1.0).abs() < 1e-12 && mean.interval.is_none(), "{mean:?}");
    }

    #[test]
    fn a_row_that_somebody_has_not_counts_for_nobody() {
        let contenders = contenders();
        let rows = [row("a", [&[1.0], &[0.5], &[1.0], &[1.0]]), row("b", [&[1.0], &[0.1], &[], &[1.0]])];
        let suite = Suite { contenders: &contenders, rows: &rows };
        assert_eq!(suite.common_rows(Measure::Cpu).len(), 1);
        assert_eq!(suite.mean(1, Measure::Cpu).map(|mean| mean.ratio), Some(0.5));
        assert_eq!(suite.ratio(&rows[1], 2, Measure::Cpu), None);
        assert_eq!(suite.mean(1, Measure::Peak), None);
    }

    #[test]
    fn memory_that_nobody_writes_to_counts_in_no_mean() {
        let contenders = contenders();
        let mut rows =
            [row("program000", [&[1.0], &[0.01], &[1.0], &[1.0]]), row("x", [&[1.0], &[1.5], &[1.0], &[1.0]])];
        for cell in rows.iter_mut().flat_map(|row| &mut row.cells) {
            cell.runs[0].peak_rss = cell.runs[0].cpu_seconds.map(|figure| (figure * 1000.0) as u64);
        }
        let suite = Suite { contenders: &contenders, rows: &rows };
        assert_eq!(suite.mean(1, Measure::Peak).map(|mean| mean.ratio), Some(1.5));
        assert_eq!(suite.common_rows(Measure::Cpu).len(), 2);
    }

    #[test]
    fn intervals_hold_the_mean_and_are_wider_with_noise() {
        let contenders = contenders();
        let width = |noise: f64| {
            let base: Vec<f64> = (0..5).map(|round| 1.0 + noise * f64::from(round)).collect();
            let ours: Vec<f64> = (0..5).map(|round| 0.8 + noise * f64::from(4 - round)).collect();
            let rows = [row("a", [&base, &ours, &base, &base])];
            let mean = Suite { contenders: &contenders, rows: &rows }.mean(1, Measure::Cpu).unwrap();
            let [low, high] = mean.interval.unwrap();
            assert!(low <= mean.ratio && mean.ratio <= high);
            high - low
        };
        assert!(width(0.02) > 2.0 * width(0.005));
    }

    #[test]
    fn who_scatters_is_not_told_apart() {
        let contenders = contenders();
        let steady: &[f64] = &[1.0, 1.001, 0.999];
        let scattered: &[f64] = &[0.7, 1.0, 1.3];
        let noise = |columns| {
            let rows = [row("a", columns)];
            Suite { contenders: &contenders, rows: &rows }.noise(&rows[0], Measure::Cpu)
        };
        assert!(noise([scattered; 4]) > 0.2);
        assert!(noise([steady; 4]) < 0.01);
    }

    #[test]
    fn noise_is_that_of_the_row_or_the_usual() {
        let contenders = contenders();
        let rows = [1.0, 1.1, 1.5].map(|again| row("a", [&[1.0], &[1.0], &[1.0], &[again]]));
        let suite = Suite { contenders: &contenders, rows: &rows };
        let noises: Vec<f64> = rows.iter().map(|row| suite.noise(row, Measure::Cpu).exp()).collect();
        assert!((noises[0] - 1.1).abs() < 1e-9 && (noises[2] - 1.5).abs() < 1e-9, "{noises:?}");
    }
}
