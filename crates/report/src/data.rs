//! The data of a report, as the page reads it: one JSON object, described in `docs/report.md`.

use heapwright_replay::Outcome;
use heapwright_replay::history::{Histogram, Moment};
use serde::Serialize;

use super::holders::Holders;
use super::line::{Clock, Line};
use super::moments::Times;
use super::pins::Pins;
use super::resident::Real;
use super::sites::Sites;

/// All that a report shows.
#[derive(Serialize)]
pub struct Report {
    pub schema: u32,
    pub title: String,
    pub trace: Trace,
    pub rules: RuleFigures,
    pub sizes: Bins,
    pub lifetimes: Bins,
    pub lifetimes_in_bytes: Bins,
    /// `None` when the trace has no call sites.
    pub sites: Option<Sites>,
    /// `None` when the trace has no call sites.
    pub holders: Option<Holders>,
    pub policies: Vec<Policy>,
    pub real: Real,
}

/// What is true under any policy.
#[derive(Serialize)]
pub struct Trace {
    pub file: String,
    /// The texts of the trace, by name.
    pub about: Vec<(String, String)>,
    /// The calls of the program, which every command counts alike.
    pub events: u64,
    pub blocks: u64,
    pub peak_requested: u64,
    /// How many events it took to get there.
    pub peak_requested_at: u64,
    pub never_freed: u64,
    pub never_freed_bytes: u64,
    pub requested: Line,
    /// `None` when the trace has no times.
    pub clock: Option<Clock>,
}

impl Trace {
    /// Returns its length and its peak.
    pub fn times(&self) -> Times {
        Times { events: self.events, peak: self.peak_requested_at }
    }
}

/// The rules of the simulated heaps.
#[derive(Serialize)]
pub struct RuleFigures {
    pub granule: u32,
    pub header: u32,
    pub min_remainder: u32,
    /// `None` for a heap that grows.
    pub region: Option<usize>,
    /// All rules in their text form; `None` for the usual ones.
    pub named: Option<String>,
    /// Policies whose heaps the reference engine simulated, each with the reason.
    pub reference_engines: Vec<String>,
}

/// Things by powers of two.
#[derive(Serialize)]
pub struct Bins {
    pub counts: Vec<u64>,
    pub bytes: Vec<u64>,
}

impl From<&Histogram> for Bins {
    fn from(histogram: &Histogram) -> Bins {
        Bins { counts: histogram.counts().to_vec(), bytes: histogram.weights().to_vec() }
    }
}

/// One simulated heap.
#[derive(Serialize)]
pub struct Policy {
    #[serde(flatten)]
    pub outcome: Outcome,
    pub peak_over_requested: Option<f64>,
    pub lines: Lines,
    pub map: Map,
    /// `None` when nothing was ever asked for.
    pub at_peak: Option<State>,
    pub at_end: State,
    /// Of the peak.
    pub pins: Option<Pins>,
}

/// Quantities over time.
#[derive(Serialize)]
pub struct Lines {
    pub heap: Line,
    pub live: Line,
    pub holes: Line,
}

/// A map of addresses and time.
#[derive(Serialize)]
pub struct Map {
    pub rows: usize,
    pub columns: usize,
    pub row_bytes: u64,
    pub column_events: u64,
    /// What the layers behind the first plane show.
    pub layers: &'static [&'static str],
    /// Planes of `rows * columns` bytes, row after row from the lowest addresses, one after the other: how much of each
    /// cell was used (0 nothing, 255 all), then the class of each cell in each layer. Packed by zlib, in base64.
    pub planes: String,
}

/// A heap at one moment.
#[derive(Serialize)]
pub struct State {
    /// After how many events.
    pub events: u64,
    pub heap: u64,
    pub live: u64,
    pub requested: u64,
    pub holes: u64,
    pub free: u64,
    pub longest_hole: u64,
    pub external_fragmentation: Option<f64>,
    pub hole_sizes: Bins,
}

impl From<&Moment> for State {
    fn from(moment: &Moment) -> State {
        State {
            events: moment.events,
            heap: moment.heap,
            live: moment.live,
            requested: moment.requested,
            holes: moment.holes.count,
            free: moment.holes.weight,
            longest_hole: moment.longest_hole,
            external_fragmentation: moment.external_fragmentation(),
            hole_sizes: Bins::from(&moment.holes),
        }
    }
}
