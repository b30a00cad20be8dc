//! How a suite of bars is measured, and the judgement of it.

use anyhow::Result;
use serde::Serialize;
use serde_json::Value;

/// How a suite is measured and printed.
#[derive(Clone, Copy)]
pub struct Settings {
    /// Rounds per measurement, if they were given.
    pub rounds: Option<u16>,
    /// What is printed while measuring.
    pub output: heapwright_suite::Output,
}

/// The judgement of a suite.
pub struct Judgement {
    /// The bars as JSON, each with the name of its suite.
    pub bars: Vec<Value>,
    pub outcome: Outcome,
}

/// Whether the bars of a suite hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every bar holds.
    AllHold,
    /// At least one fails or was not measured.
    SomeFail,
    /// Ctrl-C ended the measurement.
    Interrupted,
}

impl Judgement {
    pub fn new<B: Serialize>(suite: &'static str, bars: &[B], outcome: Outcome) -> Result<Judgement> {
        let bars = bars.iter().map(|bar| serde_json::to_value(OfSuite { suite, bar }));
        Ok(Judgement { bars: bars.collect::<Result<_, _>>()?, outcome })
    }
}

impl Outcome {
    pub fn of(all_hold: bool) -> Outcome {
        if all_hold { Outcome::AllHold } else { Outcome::SomeFail }
    }
}

#[derive(Serialize)]
struct OfSuite<'a, B> {
    suite: &'static str,
    #[serde(flatten)]
    bar: &'a B,
}
