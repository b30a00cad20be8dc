//! Runs of the program itself, and their figures.

use heapwright_stats::{Estimate, paired_ratios};
use serde::{Deserialize, Serialize};

use super::row::Kind;

/// Runs of the program itself, interleaved.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Confirmation {
    /// Rounds in which every finalist was run.
    pub rounds: u32,
    /// The system's malloc first, last the system's malloc again; between them the finalists.
    #[serde(rename = "results")]
    pub rows: Vec<Confirmed>,
}

/// The program under one allocator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Confirmed {
    /// The name of the row with the replays.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Why it could not be run to the end.
    pub note: Option<String>,
    /// One per round.
    pub runs: Vec<ProgramRun>,
}

/// What one run of the program took, with the processes that it started and waited for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProgramRun {
    /// Elapsed time.
    pub seconds: f64,
    /// Processor time.
    pub cpu_seconds: f64,
    /// Peak resident bytes of the largest of its processes.
    pub peak_rss: u64,
}

/// A figure of [`ProgramRun`].
pub type Figure = fn(&ProgramRun) -> f64;

impl ProgramRun {
    /// Elapsed time in seconds.
    pub const ELAPSED: Figure = |run| run.seconds;
    /// Processor time in seconds.
    pub const PROCESSOR: Figure = |run| run.cpu_seconds;
    /// Peak resident memory in bytes.
    pub const PEAK: Figure = |run| run.peak_rss as f64;
}

impl Confirmation {
    /// Returns the median of a figure; `None` without runs.
    pub fn figure(&self, row: &Confirmed, figure: Figure) -> Option<Estimate> {
        Estimate::of(&self.in_each_round(row, figure))
    }

    /// Returns a figure over that of the system's malloc, round by round; `None` without whole rounds.
    pub fn over_system(&self, row: &Confirmed, figure: Figure) -> Option<Estimate> {
        Estimate::of(&self.ratios(row, figure)?)
    }

    /// Returns a figure over that of the system's malloc in each round; `None` unless both have the same rounds.
    pub fn ratios(&self, row: &Confirmed, figure: Figure) -> Option<Vec<f64>> {
        let system = self.system()?;
        let is_paired = row.runs.len() == system.runs.len();
        let ratios = || paired_ratios(&self.in_each_round(row, figure), &self.in_each_round(system, figure));
        is_paired.then(ratios).flatten()
    }

    /// Returns the runs under the system's malloc.
    pub fn system(&self) -> Option<&Confirmed> {
        self.rows.iter().find(|row| row.kind == Kind::System)
    }

    /// Returns why the program could not be run under the system's malloc, with which every other is compared.
    pub fn failure(&self) -> Option<&str> {
        self.system()?.note.as_deref()
    }

    /// Returns by which share a figure differs where nothing differs; `None` when that is not known.
    pub fn noise(&self, figure: Figure) -> Option<f64> {
        let again = self.rows.iter().find(|row| row.kind == Kind::SystemAgain)?;
        self.over_system(again, figure)?.distance_from_one()
    }

    fn in_each_round(&self, row: &Confirmed, figure: Figure) -> Vec<f64> {
        row.runs.iter().map(figure).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_paired_by_round() {
        let run = |seconds: f64| ProgramRun { seconds, cpu_seconds: seconds, peak_rss: 1 << 20 };
        let of = |name: &str, kind, factor: f64| Confirmed {
            name: name.to_owned(),
            kind,
            note: None,
            runs: (1..=6).map(|round| run(f64::from(round) * factor)).collect(),
        };
        let rows =
            vec![of("system", Kind::System, 1.0), of("x", Kind::Policy, 0.5), of("again", Kind::SystemAgain, 1.0)];
        let confirmation = Confirmation { rounds: 6, rows };
        let ratio = confirmation.over_system(&confirmation.rows[1], ProgramRun::PROCESSOR).unwrap();
        assert_eq!((ratio.median, ratio.interval), (0.5, Some([0.5, 0.5])));
        assert_eq!(confirmation.noise(ProgramRun::ELAPSED), Some(0.0));
        assert_eq!(confirmation.over_system(&confirmation.rows[1], ProgramRun::PEAK).unwrap().median, 1.0);
    }
}
