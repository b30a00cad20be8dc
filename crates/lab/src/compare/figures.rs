//! The figures of a row that was really replayed, from its rounds.

use super::comparison::{Comparison, Round, Row, TimedRound};
use super::estimate::Estimate;
use super::metric::Metric;
use super::subject::Kind;

impl Row {
    /// A figure in each of the rounds; empty for figures that do not come from rounds.
    pub fn in_each_round(&self, metric: Metric, threads: bool) -> Vec<f64> {
        let round: fn(&Round) -> f64 = match metric {
            Metric::Time if threads => |round| round.seconds,
            Metric::Time => |round| round.cpu_seconds,
            Metric::Peak => |round| round.peak_rss as f64,
            Metric::Average => |round| round.average_rss as f64,
            Metric::Faults => |round| round.faults as f64,
            _ => return self.in_each_timed_round(metric),
        };
        self.rounds.iter().map(round).collect()
    }

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
    /// A figure of a row in each of the rounds.
    pub fn in_each_round(&self, row: &Row, metric: Metric) -> Vec<f64> {
        row.in_each_round(metric, self.settings.threads)
    }

    /// A figure of one row over that of another, round by round.
    pub fn ratio(&self, row: &Row, base: &Row, metric: Metric) -> Option<Estimate> {
        Estimate::of_paired_ratios(&self.in_each_round(row, metric), &self.in_each_round(base, metric))
    }

    /// By how much two replays of one allocator differ, as a share: times that are not further apart may be the same.
    /// `None` when that is not known.
    pub fn noise(&self) -> Option<f64> {
        let again = self.rows.iter().find(|row| row.kind == Kind::SystemAgain)?;
        let [low, high] = again.figures.get(&Metric::TimeOverSystem)?.interval?;
        Some((high - 1.0).abs().max((1.0 - low).abs()))
    }

    /// Makes the figures of all rows from their rounds.
    pub fn settle(&mut self) {
        const FROM_ROUNDS: [Metric; 8] = [
            Metric::Time,
            Metric::Peak,
            Metric::Average,
            Metric::Faults,
            Metric::P50,
            Metric::P99,
            Metric::P9999,
            Metric::Max,
        ];
        let threads = self.settings.threads;
        let asked = self.trace.peak_asked as f64;
        let base = self.system().map(|system| system.in_each_round(Metric::Time, threads)).unwrap_or_default();
        for row in &mut self.rows {
            for metric in FROM_ROUNDS {
                row.set(metric, Estimate::of(&row.in_each_round(metric, threads)));
            }
            let time = row.in_each_round(Metric::Time, threads);
            row.set(Metric::TimeOverSystem, Estimate::of_paired_ratios(&time, &base));
            let peak = row.figures.get(&Metric::Peak).copied().filter(|_| asked > 0.0);
            row.set(Metric::PeakOverAsked, peak.map(|peak| peak.times(1.0 / asked)));
        }
    }
}
