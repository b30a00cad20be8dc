//! A row of a comparison: what it is about, and its figures.

use std::collections::BTreeMap;

use heapwright_placement::PolicyKind;
use serde::{Deserialize, Serialize};

use super::metric::Metric;
use super::predicted::Predicted;
use heapwright_show::number;
use heapwright_stats::Estimate;

pub use super::start::Start;

/// What a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The C library's own malloc.
    System,
    /// The same again: what differs between the two is noise.
    SystemAgain,
    /// One of our policies.
    Policy,
    /// Another allocator.
    Allocator,
    /// No allocator at all: what the harness costs.
    NoOp,
}

impl Kind {
    /// Returns whether a program can run on it.
    pub fn is_a_choice(self) -> bool {
        self == Kind::System || self.is_a_rival()
    }

    /// Returns whether it can be chosen instead of the system's malloc.
    pub fn is_a_rival(self) -> bool {
        matches!(self, Kind::Policy | Kind::Allocator)
    }
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
    /// Why the reference engine simulated the policy, if it did.
    #[serde(default)]
    pub reference_engine: Option<String>,
    /// The raw figures of the rounds; every row has the same rounds, or none.
    pub rounds: Vec<Round>,
    /// The raw figures of the rounds in which every call was timed.
    pub timed_rounds: Vec<TimedRound>,
    /// The heap's resident bytes in the course of the first round.
    pub samples: Vec<Sample>,
    /// The blocks and holes of the simulated heap when it was first at its longest.
    #[serde(default)]
    pub at_peak: Option<AtPeak>,
    /// Usable bytes of the live blocks when most bytes were asked for.
    #[serde(default)]
    pub usable: Option<u64>,
    /// The parts of the measured peak RSS.
    #[serde(default)]
    pub parts: Option<Parts>,
    /// What a program takes that does nothing, once in each round.
    #[serde(default)]
    pub starts: Vec<Start>,
    /// The predicted figures of the whole program.
    #[serde(default)]
    pub program: Option<Predicted>,
}

/// A simulated heap when it was first at its longest, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AtPeak {
    /// What was asked for in all live blocks.
    pub asked: u64,
    /// What their rounding and headers take.
    pub rounding: u64,
    /// Free bytes between blocks and behind them.
    pub holes: u64,
}

/// The parts of a row's peak RSS, in bytes. They add up to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parts {
    /// What was asked for.
    pub asked: u64,
    /// Rounding and headers; `None` where they are part of `kept`, because they cannot be told apart from outside.
    pub rounding: Option<u64>,
    /// Holes; `None` as for `rounding`.
    pub holes: Option<u64>,
    /// What the allocator keeps: metadata, caches, free pages. Negative where pages of blocks and holes were never
    /// touched.
    pub kept: i64,
}

impl Parts {
    /// The headings of their columns.
    pub const NAMES: [&str; 4] = ["asked", "rounding", "holes", "kept"];

    /// Returns them in the order of [`Parts::NAMES`]; `None` for those that are part of `kept`.
    pub fn bytes(&self) -> [Option<i64>; 4] {
        let known = |part: Option<u64>| part.map(|bytes| bytes as i64);
        [Some(self.asked as i64), known(self.rounding), known(self.holes), Some(self.kept)]
    }

    /// Splits `peak` resident bytes. Of policies the simulated heap tells the parts. Of others, what was `asked` for is
    /// known, and the `usable` bytes of blocks where the library tells them.
    pub fn of(peak: u64, at_peak: Option<AtPeak>, asked: u64, usable: Option<u64>) -> Parts {
        let (asked, rounding, holes) = match at_peak {
            Some(AtPeak { asked, rounding, holes }) => (asked, Some(rounding), Some(holes)),
            None => (asked, usable.map(|usable| usable.saturating_sub(asked)), None),
        };
        let known = asked + rounding.unwrap_or(0) + holes.unwrap_or(0);
        Parts { asked, rounding, holes, kept: peak as i64 - known as i64 }
    }
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
    /// The processor time of a page fault for memory that is written to for the first time.
    #[serde(default)]
    pub fault_seconds: f64,
    /// By how many bytes the peak of the program's memory is higher with this heap than with that of the system's
    /// malloc in the same round, libraries left out.
    #[serde(default)]
    pub rise: Option<i64>,
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

impl Row {
    /// Returns a row without figures.
    pub fn new(name: &str, kind: Kind) -> Row {
        Row {
            name: name.to_owned(),
            kind,
            library: None,
            figures: Default::default(),
            refused: None,
            note: None,
            reference_engine: None,
            rounds: Vec::new(),
            timed_rounds: Vec::new(),
            samples: Vec::new(),
            at_peak: None,
            usable: None,
            parts: None,
            starts: Vec::new(),
            program: None,
        }
    }

    /// Returns the policy that can be simulated, if it is one.
    pub fn policy(&self) -> Option<PolicyKind> {
        PolicyKind::from_name(&self.name).filter(|_| self.kind == Kind::Policy)
    }

    /// Returns the median of a figure, if it is known.
    pub fn median(&self, metric: Metric) -> Option<f64> {
        self.figures.get(&metric).map(|estimate| estimate.median)
    }

    /// Notes a figure, if it is known.
    pub fn set(&mut self, metric: Metric, estimate: Option<Estimate>) {
        if let Some(estimate) = estimate {
            self.figures.insert(metric, estimate);
        }
    }

    /// Returns a value of one of its figures as people read it. External fragmentation has the bytes that it stands for
    /// behind it.
    pub fn shown(&self, metric: Metric, value: f64) -> String {
        match (metric, self.at_peak) {
            (Metric::External, Some(at_peak)) => {
                format!("{} of {}", metric.show(value), number::bytes(at_peak.holes))
            }
            _ => metric.show(value),
        }
    }

    /// Returns the name in a sentence.
    pub fn title(&self) -> String {
        match (self.kind, self.name.as_str()) {
            (Kind::System, _) => "the system's malloc".to_owned(),
            (Kind::Policy, "buddy") => "buddies".to_owned(),
            (Kind::Policy, "mapped") => "a mapping per block".to_owned(),
            (Kind::Policy, policy) => format!("{policy} fit"),
            (_, name) => name.to_owned(),
        }
    }
}

/// Returns a number of bytes, which may be negative, as people read it.
pub fn signed(bytes: i64) -> String {
    let sign = if bytes < 0 { "-" } else { "" };
    format!("{sign}{}", number::bytes(bytes.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_to_the_peak() {
        let at_peak = AtPeak { asked: 900, rounding: 50, holes: 250 };
        let parts = Parts::of(1500, Some(at_peak), 1000, Some(1200));
        assert_eq!(parts, Parts { asked: 900, rounding: Some(50), holes: Some(250), kept: 300 });
        assert_eq!(Parts::of(1500, None, 1000, None), Parts { asked: 1000, rounding: None, holes: None, kept: 500 });
        let rounded = Parts { asked: 1000, rounding: Some(200), holes: None, kept: 300 };
        assert_eq!(Parts::of(1500, None, 1000, Some(1200)), rounded);
        assert_eq!(Parts::of(800, None, 1000, None).kept, -200, "memory that was asked for and never touched");
    }
}
