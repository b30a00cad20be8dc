//! The figures of a row, computed from the rounds of its real replays.

use super::comparison::Comparison;
use super::metric::{Metric, Origin};
use super::predicted::Predicted;
use super::row::{Kind, Parts, Round, Row, Start, TimedRound};
use heapwright_stats::{Estimate, median, paired_ratios};

/// What differs by at most this share counts as equal.
pub const EQUAL: f64 = 0.05;

/// Resident memory that differs by at most this number of bytes counts as equal. The kernel counts pages in each
/// processor and adds up now and then, so that what it says of two runs of one program may differ by as much.
pub const LITTLE_BYTES: f64 = 256.0 * 1024.0;

impl Row {
    fn in_each_timed_round(&self, metric: Metric) -> Vec<f64> {
        let nanoseconds: fn(&TimedRound) -> f64 = match metric {
            Metric::P50 => |round| round.p50,
            Metric::P99 => |round| round.p99,
            Metric::P9999 => |round| round.p9999,
            Metric::Max => |round| round.max,
            _ => return Vec::new(),
        };
        self.timed_rounds.iter().map(|round| nanoseconds(round) / 1e9).collect()
    }
}

impl Comparison {
    /// Returns a figure of a row as it was measured in each of the rounds; empty for figures that do not come from
    /// rounds.
    fn measured_in(&self, row: &Row, metric: Metric) -> Vec<f64> {
        let round: fn(&Round) -> f64 = match metric {
            Metric::Time if self.settings.threads => |round| round.seconds,
            Metric::Time => |round| round.cpu_seconds,
            Metric::Peak => |round| round.peak_rss as f64,
            Metric::Average => |round| round.average_rss as f64,
            Metric::Faults => |round| round.faults as f64,
            _ => return row.in_each_timed_round(metric),
        };
        row.rounds.iter().map(round).collect()
    }

    /// Returns a figure of a row in each of the rounds; empty for figures that do not come from rounds. Times are net
    /// of the harness where that is known, but for the harness itself.
    pub fn in_each_round(&self, row: &Row, metric: Metric) -> Vec<f64> {
        if metric.origin() == Origin::Predicted {
            return self.predicted_in_each_round(row, metric);
        }
        let measured = self.measured_in(row, metric);
        match metric {
            Metric::Time if row.kind == Kind::NoOp => measured,
            Metric::Time => match self.harness() {
                Some(harness) => measured.iter().zip(harness).map(|(time, harness)| time - harness).collect(),
                None => measured,
            },
            Metric::TimeOverSystem if row.kind != Kind::NoOp => self.over_system(row),
            Metric::Peak | Metric::Average => {
                let starts = self.starts_over_system(row).into_iter().chain(std::iter::repeat(0.0));
                measured.iter().zip(starts).map(|(bytes, start)| (bytes + start).max(0.0)).collect()
            }
            Metric::PeakOverAsked if self.trace.peak_asked > 0 => {
                let asked = self.trace.peak_asked as f64;
                self.in_each_round(row, Metric::Peak).into_iter().map(|peak| peak / asked).collect()
            }
            _ => measured,
        }
    }

    /// Returns how many bytes more an allocator takes than the system's malloc before the program's first request, when
    /// a replay does not see them; 0 where that was not measured. Pages that it has then are there for the program.
    pub fn start_over_system(&self, row: &Row) -> f64 {
        median(&self.starts_over_system(row)).unwrap_or(0.0)
    }

    /// Returns the same in each of the rounds; empty where that was not measured.
    fn starts_over_system(&self, row: &Row) -> Vec<f64> {
        if !matches!(row.kind, Kind::Policy | Kind::Allocator) {
            return Vec::new();
        }
        self.start_differences(row, |start| start.rss as f64)
    }

    /// Returns by how much a figure of a row's starts exceeds that of the system's malloc, in each of the rounds.
    pub fn start_differences(&self, row: &Row, figure: fn(&Start) -> f64) -> Vec<f64> {
        let system = self.system().map_or(&[][..], |system| &system.starts);
        row.starts.iter().zip(system).map(|(own, system)| figure(own) - figure(system)).collect()
    }

    fn over_system(&self, row: &Row) -> Vec<f64> {
        let time = |row: &Row| self.in_each_round(row, Metric::Time);
        self.system().and_then(|system| paired_ratios(&time(row), &time(system))).unwrap_or_default()
    }

    /// Returns whether times are net of the harness.
    pub fn is_net(&self) -> bool {
        self.harness().is_some()
    }

    /// Returns the time that the harness takes in each of the rounds. `None` where it was not measured, or where it
    /// took as long as an allocator and the harness together: then it cannot be subtracted.
    fn harness(&self) -> Option<Vec<f64>> {
        let time = |row: &Row| self.measured_in(row, Metric::Time);
        let harness = self.rows.iter().find(|row| row.kind == Kind::NoOp && !row.rounds.is_empty()).map(time)?;
        let is_longer = |row: &Row| time(row).iter().zip(&harness).all(|(time, harness)| time > harness);
        self.rows.iter().filter(|row| row.kind != Kind::NoOp).all(is_longer).then_some(harness)
    }

    /// Returns a figure of one row over that of another, round by round.
    pub fn ratio(&self, row: &Row, base: &Row, metric: Metric) -> Option<Estimate> {
        Estimate::of_paired_ratios(&self.in_each_round(row, metric), &self.in_each_round(base, metric))
    }

    /// By how much the times of two replays of one allocator differ, as a share. `None` when that is not known.
    pub fn noise(&self) -> Option<f64> {
        self.noise_of(Metric::Time)
    }

    /// By how much a figure of two replays of one allocator differs, as a share. `None` when that is not known.
    pub fn noise_of(&self, metric: Metric) -> Option<f64> {
        let again = self.rows.iter().find(|row| row.kind == Kind::SystemAgain)?;
        self.ratio(again, self.system()?, metric)?.distance_from_one()
    }

    fn estimate(&self, row: &Row, metric: Metric) -> Option<Estimate> {
        let estimate = Estimate::of(&self.in_each_round(row, metric))?;
        // All rounds have one recording in common, and what its recorder took.
        let common = match metric {
            Metric::ProgramPeak => LITTLE_BYTES,
            Metric::ProgramPeakOverSystem if row.kind != Kind::System => {
                LITTLE_BYTES / Estimate::of(&self.in_each_round(self.system()?, Metric::ProgramPeak))?.median
            }
            _ => 0.0,
        };
        Some(estimate.widened(common))
    }

    /// Makes the figures of all rows from their rounds.
    pub fn settle(&mut self) {
        let measured = || Metric::ALL.into_iter().filter(|metric| metric.origin() != Origin::Simulated);
        let estimates = |row: &Row| -> Vec<(Metric, Option<Estimate>)> {
            measured().map(|metric| (metric, self.estimate(row, metric))).collect()
        };
        let all: Vec<_> = self.rows.iter().map(estimates).collect();
        for (row, estimates) in self.rows.iter_mut().zip(all) {
            row.figures.retain(|metric, _| metric.origin() == Origin::Simulated);
            estimates.into_iter().for_each(|(metric, estimate)| row.set(metric, estimate));
            let peak = row.median(Metric::Peak).filter(|_| row.kind != Kind::NoOp);
            row.program = Predicted::of(&row.figures);
            row.parts = peak.map(|peak| Parts::of(peak.round() as u64, row.at_peak, self.trace.peak_asked, row.usable));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::recorded::Recorded;
    use super::super::synthetic::{Synthetic, row};
    use super::*;

    #[test]
    fn times_are_net_of_the_harness_round_by_round() {
        let comparison = Synthetic::beside([row("fast", 0.6, 1.0)]).noise(0.0).harness(0.2).build();
        let median = |name: &str, metric| comparison.row(name).unwrap().median(metric);
        let near = |figure: Option<f64>, expected: f64| (figure.unwrap() - expected).abs() < 1e-9;
        assert!(comparison.is_net() && near(median("system", Metric::Time), 0.8));
        assert!(near(median("fast", Metric::TimeOverSystem), 0.5));
        assert!(near(median("no-op", Metric::Time), 0.2));
        assert_eq!(median("no-op", Metric::TimeOverSystem), None);
    }

    #[test]
    fn what_an_allocator_has_before_the_first_request_counts() {
        let mut comparison = Synthetic::beside([row("early", 0.6, 0.1), row("late", 0.6, 1.0)]).noise(0.0).build();
        let peak = |comparison: &Comparison, name: &str| comparison.row(name).unwrap().median(Metric::Peak).unwrap();
        let (early, late) = (peak(&comparison, "early"), peak(&comparison, "late"));
        let at = comparison.rows.iter().position(|row| row.name == "early").unwrap();
        comparison.rows[at].starts.iter_mut().for_each(|start| start.rss += 3 << 20);
        comparison.settle();
        assert_eq!(peak(&comparison, "early"), early + 3.0 * f64::from(1 << 20));
        assert_eq!(peak(&comparison, "late"), late);
    }

    /// The pages that an allocator has at the start are counted to 256 KiB only, in every round alike.
    #[test]
    fn the_memory_of_small_programs_is_not_said_to_differ_by_a_few_pages() {
        let recorded = Recorded {
            peak_anonymous: Some(3 << 20),
            resident_files: Some(1 << 20),
            recorder_bytes: Some(0),
            ..Recorded::default()
        };
        let mut comparison = Synthetic::beside([row("same", 1.0, 1.0)]).noise(0.0).recorded(recorded).build();
        let at = comparison.rows.iter().position(|row| row.name == "same").unwrap();
        comparison.rows[at].starts.iter_mut().for_each(|start| start.rss += 160 << 10);
        comparison.settle();
        let ratio = comparison.rows[at].figures[&Metric::ProgramPeakOverSystem];
        assert!(ratio.median > 1.01 && ratio.low() < 1.0 && ratio.high() < 1.3, "{ratio:?}");
        let system = comparison.system().unwrap().figures[&Metric::ProgramPeakOverSystem];
        assert_eq!(system.interval, Some([1.0, 1.0]));
    }

    #[test]
    fn a_harness_that_takes_as_long_as_an_allocator_is_not_subtracted() {
        let comparison = Synthetic::beside([row("fast", 0.6, 1.0)]).noise(0.0).harness(0.6).build();
        assert!(!comparison.is_net());
        assert_eq!(comparison.row("fast").unwrap().median(Metric::TimeOverSystem), Some(0.6));
    }
}
