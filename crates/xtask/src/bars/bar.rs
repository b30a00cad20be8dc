//! A bar that bounds a figure from above, and whether it holds.

use heapwright_show::table::Table;
use heapwright_stats::{Estimate, noise};
use serde::Serialize;

/// A bar and the measured figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bar {
    /// What is measured.
    pub what: String,
    /// The maximal allowed value.
    pub limit: f64,
    /// The measured value, if any.
    pub measured: Option<f64>,
    /// Whether it holds.
    pub verdict: Verdict,
    /// What it was measured on.
    pub on: String,
}

/// Whether a bar holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It holds.
    Holds,
    /// The measured value is above the limit by no more than noise.
    Tie,
    /// It fails.
    Fails,
    /// There is no measured value.
    NotMeasured,
}

impl Bar {
    /// Returns a bar that is not measured yet.
    pub fn new(what: impl Into<String>, limit: f64) -> Bar {
        Bar { what: what.into(), limit, measured: None, verdict: Verdict::NotMeasured, on: String::new() }
    }

    /// Judges a measured value whose noise is this difference of logarithms.
    pub fn at(self, measured: f64, noise: f64, on: impl Into<String>) -> Bar {
        let verdict = match measured / self.limit {
            over if over <= 1.0 => Verdict::Holds,
            over if !noise::is_beyond(over, noise) => Verdict::Tie,
            _ => Verdict::Fails,
        };
        Bar { measured: Some(measured), verdict, on: on.into(), ..self }
    }

    /// Judges a median, whose noise is the distance to the lower end of its interval.
    pub fn at_median(self, figure: &Estimate, on: impl Into<String>) -> Bar {
        let noise = figure.interval.map_or(0.0, |[low, _]| noise::distance(figure.median / low));
        self.at(figure.median, noise, on)
    }
}

/// Prints the bars as a table.
pub fn print(bars: &[Bar]) {
    let mut table = Table::new(["bar", "at most", "measured", "", "on"]);
    for bar in bars {
        let verdict = match bar.verdict {
            Verdict::Holds => "holds",
            Verdict::Tie => "holds within noise",
            Verdict::Fails => "FAILS",
            Verdict::NotMeasured => "not measured",
        };
        let measured = bar.measured.map_or_else(|| "-".to_owned(), |it| format!("{it:.3}"));
        table.row([bar.what.clone(), bar.limit.to_string(), measured, verdict.to_owned(), bar.on.clone()]);
    }
    heapwright_show::print!("{table}");
}

/// Returns whether every bar holds. A bar that was not measured does not.
pub fn all_hold(bars: &[Bar]) -> bool {
    bars.iter().all(|bar| matches!(bar.verdict, Verdict::Holds | Verdict::Tie))
}
