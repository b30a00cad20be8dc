//! All that a comparison finds out, as `--json` writes it and `--baseline` and the report read it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::estimate::Estimate;
use super::fidelity::Fidelity;
use super::machine::Machine;
use super::metric::Metric;
use super::recommend::Recommendation;
use super::subject::Kind;
use super::trace::Trace;

/// The version of this form.
pub const SCHEMA: u32 = 1;

/// A trace, replayed everywhere.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Comparison {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The version of the command.
    pub heapwright: String,
    /// What was replayed.
    pub trace: Trace,
    /// Where.
    pub machine: Machine,
    /// How.
    pub settings: Settings,
    /// How true the replay is.
    pub fidelity: Option<Fidelity>,
    /// What to do.
    pub recommendation: Option<Recommendation>,
    /// A row per policy and allocator.
    #[serde(rename = "results")]
    pub rows: Vec<Row>,
}

/// How real replays were made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Rounds in which every subject was measured; 0 for simulations alone.
    pub rounds: u32,
    /// Rounds in which every call was timed.
    pub timed_rounds: u32,
    /// Whether each thread of the trace had one of its own, instead of all events in one, in order.
    pub threads: bool,
    /// The seed of the order of each round and of random fit.
    pub seed: u64,
    /// Whether somebody interrupted, so that there are fewer rounds than there would have been.
    pub interrupted: bool,
    /// How long the replays took, in seconds.
    pub seconds: f64,
}

/// A policy or an allocator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The name in tables.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// The library that a real replay loads.
    pub library: Option<String>,
    /// Its figures; one that is not known is missing.
    pub figures: BTreeMap<Metric, Estimate>,
    /// Requests that found no place.
    pub refused: Option<u64>,
    /// Why figures are missing.
    pub note: Option<String>,
    /// The raw figures of the rounds; every row has the same rounds, or none.
    pub rounds: Vec<Round>,
    /// The raw figures of the rounds in which every call was timed.
    pub timed_rounds: Vec<TimedRound>,
    /// The heap's resident bytes in the course of the first round.
    pub samples: Vec<Sample>,
}

/// What one real replay took.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Round {
    /// Elapsed time.
    pub seconds: f64,
    /// Time of the processors.
    pub cpu_seconds: f64,
    /// The most resident bytes of the heap alone.
    pub peak_rss: u64,
    /// Their mean over the run.
    pub average_rss: u64,
    /// Page faults.
    pub faults: u64,
}

/// The resident bytes of a heap at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// How many events had happened.
    pub event: u64,
    /// Resident bytes of the heap alone.
    pub rss: u64,
}

/// What single calls took, in nanoseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TimedRound {
    /// Half of the calls took at most this.
    pub p50: f64,
    /// 99 of 100.
    pub p99: f64,
    /// 9,999 of 10,000.
    pub p9999: f64,
    /// The longest.
    pub max: f64,
}

impl Comparison {
    /// The row of this name.
    pub fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }

    /// The row of the C library's own malloc.
    pub fn system(&self) -> Option<&Row> {
        self.rows.iter().find(|row| row.kind == Kind::System)
    }
}

impl Row {
    /// The median of a figure, if it is known.
    pub fn median(&self, metric: Metric) -> Option<f64> {
        self.figures.get(&metric).map(|estimate| estimate.median)
    }

    /// Notes a figure, if it is known.
    pub fn set(&mut self, metric: Metric, estimate: Option<Estimate>) {
        if let Some(estimate) = estimate {
            self.figures.insert(metric, estimate);
        }
    }
}
