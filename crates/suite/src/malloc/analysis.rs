//! Statistics over the figures: ratios to the system's malloc, noise, and geometric means over the suite.

use std::collections::BTreeMap;

use serde::Serialize;

use super::contender::{Contender, Role};
use super::figures::{Cell, Measure, Row};
use heapwright_stats::{self as stats, Estimate, noise};

/// All rows and columns. The first contender is the baseline.
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
    /// The median over the rounds of the mean in each.
    pub ratio: f64,
    /// The 95 % confidence interval of that median, from six rounds up.
    pub interval: Option<[f64; 2]>,
}

impl Suite<'_> {
    /// Returns the indices of the contenders with a role.
    pub fn places(&self, role: Role) -> impl Iterator<Item = usize> + '_ {
        self.contenders.iter().enumerate().filter(move |(_, it)| it.role == role).map(|(at, _)| at)
    }

    /// Returns a contender's median divided by the baseline's.
    pub fn ratio(&self, row: &Row, at: usize, measure: Measure) -> Option<f64> {
        let median = |at: usize| stats::median(&row.cells[at].values(measure));
        Some(median(at)? / median(0).filter(|&base| base > 0.0)?)
    }

    /// Returns the noise of a row: the difference of logarithms up to which two contenders tie. The maximum of three:
    /// the A/A difference of the baseline in the row, the median of the A/A differences of all rows, and twice the
    /// median of the standard errors in the row.
    pub fn noise(&self, row: &Row, measure: Measure) -> f64 {
        let distances: Vec<f64> = self.rows.iter().filter_map(|row| self.distance(row, measure)).collect();
        let error = |cell: &Cell| noise::relative_error(&cell.values(measure));
        let errors: Vec<f64> = row.cells.iter().filter_map(error).collect();
        noise::of_row(self.distance(row, measure), &distances, &errors)
    }

    /// Returns the A/A difference of the baseline in a row, as a difference of logarithms.
    fn distance(&self, row: &Row, measure: Measure) -> Option<f64> {
        let again = self.places(Role::Noise).next()?;
        self.ratio(row, again, measure).map(noise::distance)
    }

    /// Returns the lowest ratio among the contenders with one of `roles`.
    pub fn best(&self, row: &Row, measure: Measure, roles: &[Role]) -> Option<f64> {
        let places = roles.iter().flat_map(|&role| self.places(role));
        places.filter_map(|at| self.ratio(row, at, measure)).reduce(f64::min)
    }

    /// Returns the rows that count for the suite and in which every contender has this measure: means are comparable
    /// only over these.
    pub fn common_rows(&self, measure: Measure) -> Vec<&Row> {
        let is_whole = |row: &&Row| (0..self.contenders.len()).all(|at| self.ratio(row, at, measure).is_some());
        self.rows.iter().filter(|row| row.counts_for(measure)).filter(is_whole).collect()
    }

    /// Returns the geometric mean of a contender's ratios to the baseline over the common rows. Every family counts
    /// once.
    pub fn mean(&self, at: usize, measure: Measure) -> Option<Mean> {
        self.mean_over(at, 0, measure)
    }

    /// Returns the mean as [`Suite::mean`], of ratios to the contender `base`. Every round has a mean of its own, so
    /// that what disturbs a whole round cancels out. A row with a single run counts in every round with that.
    pub fn mean_over(&self, at: usize, base: usize, measure: Measure) -> Option<Mean> {
        let rows: Vec<(&Row, Vec<f64>)> = self
            .common_rows(measure)
            .into_iter()
            .map(|row| Some((row, ratios(&row.cells[at].values(measure), &row.cells[base].values(measure))?)))
            .collect::<Option<_>>()?;
        let rounds = rows.iter().map(|(_, ratios)| ratios.len()).filter(|&rounds| rounds > 1).min().unwrap_or(1);
        let means: Vec<f64> = (0..rounds).filter_map(|round| mean_of(&rows, round)).collect();
        let Estimate { median, interval } = Estimate::of(&means)?;
        Some(Mean { ratio: median, interval: interval.filter(|_| at != base) })
    }
}

/// Returns the ratios of runs of the same rounds. Where a contender ran once only, that run stands for all rounds.
fn ratios(values: &[f64], bases: &[f64]) -> Option<Vec<f64>> {
    match (values, bases) {
        (&[value], bases) => stats::paired_ratios(&vec![value; bases.len()], bases),
        (values, &[base]) => stats::paired_ratios(values, &vec![base; values.len()]),
        _ => stats::paired_ratios(values, bases),
    }
}

/// Returns the geometric mean over families of the geometric mean over the rows of each, in one round.
fn mean_of(rows: &[(&Row, Vec<f64>)], round: usize) -> Option<f64> {
    let mut families: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (row, ratios) in rows {
        families.entry(row.family()).or_default().push(*ratios.get(round).or_else(|| ratios.first())?);
    }
    let means: Vec<f64> = families.values().filter_map(|ratios| stats::geometric_mean(ratios)).collect();
    stats::geometric_mean(&means)
}

#[cfg(test)]
mod tests {
    use super::super::figures::Figures;
    use super::*;
    use heapwright_allocators::allocator::Allocator;

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
    fn a_row_in_which_a_contender_is_missing_counts_in_no_mean() {
        let contenders = contenders();
        let rows = [row("a", [&[1.0], &[0.5], &[1.0], &[1.0]]), row("b", [&[1.0], &[0.1], &[], &[1.0]])];
        let suite = Suite { contenders: &contenders, rows: &rows };
        assert_eq!(suite.common_rows(Measure::Cpu).len(), 1);
        assert_eq!(suite.mean(1, Measure::Cpu).map(|mean| mean.ratio), Some(0.5));
        assert_eq!(suite.ratio(&rows[1], 2, Measure::Cpu), None);
        assert_eq!(suite.mean(1, Measure::Peak), None);
    }

    #[test]
    fn memory_that_is_never_written_counts_in_no_mean() {
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
        let mean = |rounds: u8, noise: f64| {
            let base: Vec<f64> = (0..rounds).map(|round| 1.0 + noise * f64::from(round)).collect();
            let ours: Vec<f64> = (0..rounds).map(|round| 0.8 + noise * f64::from(rounds - round)).collect();
            let rows = [row("a", [&base, &ours, &base, &base]), row("sleeper", [&[1.0], &[0.8], &[1.0], &[1.0]])];
            Suite { contenders: &contenders, rows: &rows }.mean(1, Measure::Cpu).unwrap()
        };
        assert_eq!(mean(5, 0.02).interval, None);
        let width = |noise: f64| {
            let mean = mean(6, noise);
            let [low, high] = mean.interval.unwrap();
            assert!(low <= mean.ratio && mean.ratio <= high);
            high - low
        };
        assert!(width(0.02) > 2.0 * width(0.005));
    }

    #[test]
    fn scattered_values_are_within_noise() {
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
