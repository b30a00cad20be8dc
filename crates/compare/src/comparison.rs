//! The results of a comparison, as `--json` writes them and `--baseline` and the report read them.

use heapwright_rules::RuleSet;
use serde::{Deserialize, Serialize};

use super::confirmation::Confirmation;
use super::recorded::Recorded;
use super::row::{Kind, Row};
use super::trace::Trace;
use super::typed::Typed;
use heapwright_host::machine::Machine;

/// A replay whose memory differs from that of the recorded run by more than this share is another program's.
pub const FAITHFUL: f64 = 0.10;

/// The version of this form.
pub const SCHEMA: u32 = 1;

/// A trace, replayed everywhere.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Comparison {
    /// `SCHEMA`.
    pub schema: u32,
    /// The version of the command.
    pub heapwright: String,
    /// What was replayed.
    pub trace: Trace,
    /// Where.
    pub machine: Machine,
    /// How.
    pub settings: Settings,
    /// What the recorded process used.
    #[serde(default)]
    pub recorded: Recorded,
    /// How true the replay is.
    pub fidelity: Option<Fidelity>,
    /// Runs of the program itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmation: Option<Confirmation>,
    /// What to do.
    pub recommendation: Option<Recommendation>,
    /// A row per policy and allocator.
    #[serde(rename = "results")]
    pub rows: Vec<Row>,
}

impl Comparison {
    /// Returns the runs of the program itself, if it could be run under the system's malloc: else the replays decide.
    pub fn confirmed(&self) -> Option<&Confirmation> {
        self.confirmation.as_ref().filter(|runs| runs.failure().is_none())
    }
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
    /// Whether Ctrl-C ended the measurement before its last round.
    pub interrupted: bool,
    /// How long the replays took, in seconds.
    pub seconds: f64,
    /// The rules of the simulated heaps, in the text form; `None` for the usual ones.
    #[serde(default)]
    pub rules: Option<String>,
    /// The options that name them.
    #[serde(default)]
    pub rule_options: Option<String>,
    /// What was typed.
    #[serde(skip)]
    pub typed: Typed,
}

impl Settings {
    /// Returns the rule by which simulations can run, but no program; `None` if programs can run by all of them.
    pub fn only_simulated(&self) -> Option<&'static str> {
        let rules = RuleSet::from_text(self.rules.as_ref()?, RuleSet::SIMULATED).ok()?;
        rules.odd.reason()
    }

    /// Returns the options that name the rules, with a space behind them; nothing if there are none.
    pub fn options_before(&self) -> String {
        self.rule_options.as_ref().map_or_else(String::new, |options| format!("{options} "))
    }
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recommendation {
    /// What came out.
    pub verdict: Verdict,
    /// The row to choose.
    pub choice: Option<String>,
    /// The verdict with its evidence, a sentence on fragmentation, and what to do next.
    pub text: String,
    /// The command that acts on it, where there is one to choose.
    #[serde(default)]
    pub command: Option<String>,
}

/// What came out of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// An allocator is shown to be better than the system's malloc in time or memory, and at most a twentieth worse in
    /// the other.
    Change,
    /// An allocator is shown to be better in one of them, and is worse in the other or may be.
    Depends,
    /// Every other is shown not to be better.
    Keep,
    /// Nothing can be said.
    Unknown,
}

/// The most bytes that glibc's malloc had from the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fidelity {
    /// In the run that was recorded.
    pub recorded: u64,
    /// In its replay.
    pub replayed: u64,
}

impl Fidelity {
    /// `None` when either is not known.
    pub fn of(recorded: Option<u64>, replayed: Option<u64>) -> Option<Fidelity> {
        let (recorded, replayed) = (recorded.filter(|&bytes| bytes > 0)?, replayed?);
        Some(Fidelity { recorded, replayed })
    }

    /// Returns whether the replay is like the recorded run.
    pub fn is_faithful(&self) -> bool {
        self.difference().abs() <= FAITHFUL
    }

    /// By which share the replay had more.
    pub fn difference(&self) -> f64 {
        self.replayed as f64 / self.recorded as f64 - 1.0
    }
}

impl Comparison {
    /// Returns the row of this name.
    pub fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }

    /// Returns whether one thread made the calls of several.
    pub fn is_threaded_by_one(&self) -> bool {
        self.trace.threads > 1 && !self.settings.threads
    }

    /// Returns the row of the C library's own malloc.
    pub fn system(&self) -> Option<&Row> {
        self.rows.iter().find(|row| row.kind == Kind::System)
    }
}
