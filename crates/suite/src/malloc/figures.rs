//! The figures of a workload under an allocator.

use std::collections::BTreeMap;

use heapwright_bench::{LIVE_PAGES, PEAK, SAMPLES};
use serde::Serialize;

use heapwright_show::number;

/// A measure, each with a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Processor time, user and system, in seconds.
    Cpu,
    /// Elapsed time, in seconds.
    Elapsed,
    /// Peak resident memory of the process, or of the largest of its processes, in bytes.
    Peak,
    /// The time that 999 of 1,000 calls of malloc and free stay below, in seconds.
    SlowCall,
}

impl Measure {
    /// All measures, in the order of the tables.
    pub const ALL: [Measure; 4] = [Measure::Cpu, Measure::Elapsed, Measure::Peak, Measure::SlowCall];

    /// Returns the heading of its table.
    pub fn title(self) -> &'static str {
        match self {
            Measure::Cpu => "CPU time, user and system",
            Measure::Elapsed => "Elapsed time",
            Measure::Peak => "Peak RSS",
            Measure::SlowCall => "Slow calls of malloc and free: 999 of 1,000 take less",
        }
    }

    /// Formats a figure with its unit.
    pub fn show(self, figure: f64) -> String {
        match self {
            Measure::Cpu | Measure::Elapsed | Measure::SlowCall => number::seconds(figure),
            Measure::Peak => number::bytes(figure as u64),
        }
    }
}

/// The figures of a run; `None` where not measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Processor time in seconds.
    pub cpu_seconds: Option<f64>,
    /// Elapsed time in seconds.
    pub elapsed_seconds: Option<f64>,
    /// Peak resident memory, in bytes.
    pub peak_rss: Option<u64>,
    /// The time that 999 of 1,000 calls stay below in seconds, for workloads that time single calls.
    pub slow_call_seconds: Option<f64>,
    /// Memory retained after frees, for workloads that measure that.
    pub kept: Option<Kept>,
}

impl Figures {
    /// Returns the figure of a measure.
    pub fn get(&self, measure: Measure) -> Option<f64> {
        match measure {
            Measure::Cpu => self.cpu_seconds,
            Measure::Elapsed => self.elapsed_seconds,
            Measure::Peak => self.peak_rss.map(|bytes| bytes as f64),
            Measure::SlowCall => self.slow_call_seconds,
        }
    }
}

/// Resident memory, in bytes, before and after blocks are freed in scattered places: of our own workloads the heap's
/// alone, of programs all that is anonymous. The program is idle afterwards.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Kept {
    /// Resident bytes while all blocks were live.
    pub before: u64,
    /// Milliseconds after the last free, and the resident bytes then.
    pub after: Vec<(u64, u64)>,
    /// Bytes of all pages that contain a live block, where that is known.
    pub live_pages: Option<u64>,
}

impl Kept {
    /// Returns the figures in a workload's output, or `None` if it does not measure them.
    pub fn of(notes: &BTreeMap<String, u64>) -> Option<Kept> {
        let after = SAMPLES.iter().map(|(time, name)| Some((*time, *notes.get(*name)?))).collect::<Option<_>>()?;
        Some(Kept { before: *notes.get(PEAK)?, after, live_pages: Some(*notes.get(LIVE_PAGES)?) })
    }

    /// Returns the resident bytes at the end.
    pub fn last(&self) -> u64 {
        self.after.last().map_or(self.before, |(_, bytes)| *bytes)
    }

    /// Returns the resident bytes at the end divided by those of pages with a live block, if there are any.
    pub fn over_live_pages(&self) -> Option<f64> {
        let live_pages = self.live_pages.filter(|&bytes| bytes > 0)?;
        Some(self.last() as f64 / live_pages as f64)
    }
}

/// Workloads that never write to their blocks.
const UNTOUCHED: [&str; 2] = ["program000", "program001"];

/// All runs of a workload under an allocator, one per round.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// In the order of the rounds.
    pub runs: Vec<Figures>,
    /// Why there are no more runs, if one failed.
    pub failure: Option<String>,
}

impl Cell {
    /// Returns the figures of a measure, run by run.
    pub fn values(&self, measure: Measure) -> Vec<f64> {
        self.runs.iter().filter_map(|run| run.get(measure)).collect()
    }
}

/// A workload, with a cell for each contender.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// In the order of the contenders.
    pub cells: Vec<Cell>,
}

impl Row {
    /// Returns the first part of the name, which related workloads share: each family counts once in a mean.
    pub fn family(&self) -> &str {
        self.name.split('/').next().unwrap_or_default()
    }

    /// Returns whether it counts in the mean of the suite. The peak of a program that never writes to its blocks does
    /// not: it differs by a factor of a hundred between allocators, and is not typical of programs.
    pub fn counts_for(&self, measure: Measure) -> bool {
        measure != Measure::Peak || !UNTOUCHED.contains(&self.name.as_str())
    }
}
