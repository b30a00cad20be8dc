//! What is measured of a workload under an allocator.

use std::collections::BTreeMap;

use heapwright_bench::{LIVE_PAGES, PEAK, SAMPLES};
use serde::Serialize;

use crate::number;

/// A figure of which there is a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Processor time, user and system, in seconds.
    Cpu,
    /// Time that passes, in seconds.
    Elapsed,
    /// The most resident memory of the process, or of the largest of its processes, in bytes.
    Peak,
}

impl Measure {
    /// All of them, in the order of the tables.
    pub const ALL: [Measure; 3] = [Measure::Cpu, Measure::Elapsed, Measure::Peak];

    /// The heading of its table.
    pub fn title(self) -> &'static str {
        match self {
            Measure::Cpu => "CPU time, user and system",
            Measure::Elapsed => "Elapsed time",
            Measure::Peak => "Peak RSS",
        }
    }

    /// A figure of it with its unit.
    pub fn show(self, figure: f64) -> String {
        match self {
            Measure::Cpu | Measure::Elapsed => number::seconds(figure),
            Measure::Peak => number::bytes(figure as u64),
        }
    }
}

/// One run. What was not measured is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Figures {
    /// Processor time in seconds.
    pub cpu_seconds: Option<f64>,
    /// Elapsed time in seconds.
    pub elapsed_seconds: Option<f64>,
    /// In bytes.
    pub peak_rss: Option<u64>,
    /// Memory that is kept after blocks are freed; of workloads that are about that.
    pub kept: Option<Kept>,
}

impl Figures {
    /// The figure of that measure.
    pub fn get(&self, measure: Measure) -> Option<f64> {
        match measure {
            Measure::Cpu => self.cpu_seconds,
            Measure::Elapsed => self.elapsed_seconds,
            Measure::Peak => self.peak_rss.map(|bytes| bytes as f64),
        }
    }
}

/// Memory of the heap alone before blocks were freed in scattered places, and afterwards, while nothing is called. In bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Kept {
    /// Resident when all blocks were live.
    pub before: u64,
    /// Resident so many milliseconds after the last free.
    pub after: Vec<(u64, u64)>,
    /// Of all pages in which a live block lies.
    pub live_pages: u64,
}

impl Kept {
    /// What a workload noted, or `None` if it is not about that.
    pub fn of(notes: &BTreeMap<String, u64>) -> Option<Kept> {
        let after = SAMPLES.iter().map(|(time, name)| Some((*time, *notes.get(*name)?))).collect::<Option<_>>()?;
        Some(Kept { before: *notes.get(PEAK)?, after, live_pages: *notes.get(LIVE_PAGES)? })
    }

    /// What is resident at the end over what has to be, where something has to be.
    pub fn over_live_pages(&self) -> Option<f64> {
        let (_, last) = self.after.last().filter(|_| self.live_pages > 0)?;
        Some(*last as f64 / self.live_pages as f64)
    }
}

/// Workloads that never write to their blocks.
const UNTOUCHED: [&str; 2] = ["program000", "program001"];

/// All runs of a workload under an allocator, one per round, or why there are none.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// In the order of the rounds.
    pub runs: Vec<Figures>,
    /// Why there are no more.
    pub failure: Option<String>,
}

impl Cell {
    /// The figures of that measure.
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
    /// The part of the name that it has in common with workloads of its kind: each kind counts once in a mean.
    pub fn family(&self) -> &str {
        self.name.split('/').next().unwrap_or_default()
    }

    /// Whether it says something of a suite as a whole. How much memory a program takes that never writes to its blocks says nothing of programs:
    /// it differs by a factor of a hundred.
    pub fn counts_for(&self, measure: Measure) -> bool {
        measure != Measure::Peak || !UNTOUCHED.contains(&self.name.as_str())
    }
}
