//! Gathers the data of a report: reads the trace, and simulates it under each policy.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use heapwright_replay::history::{Census, Detail, History, Moment, Outline};
use heapwright_replay::{Model, Outcome, ReplayError};

use super::data::{Bins, Lines, Map, Policy, State, Trace};
use super::line::{Clock, Line};
use super::pins::Pins;
use super::planes::Planes;
use super::sites::{self, Sites};
use heapwright_host::names::Shown;
use heapwright_host::temporary;
use heapwright_show::output::warn_of_part;
use heapwright_show::progress::Progress;
use heapwright_simulate::choice::open;

/// The simulation of a policy.
pub struct Simulated {
    pub outcome: Outcome,
    pub lines: Lines,
    /// The map, from fine to coarse.
    pub levels: Vec<Planes>,
    pub peak: Option<Moment>,
    pub end: Moment,
}

/// The data of a trace that no policy changes, and the detail to collect under each.
pub struct Read {
    pub census: Census,
    pub trace: Trace,
    /// `None` when the trace has no call sites.
    pub sites: Option<Sites>,
    pub detail: Detail,
}

/// Reads a trace, for the data that no policy changes.
pub fn read(path: &Path) -> Result<Read> {
    let mut reader = open(path)?.with_sites().with_times();
    let mut census = Census::take(&mut reader).with_context(|| path.shown().into_owned())?;
    if reader.damage().is_some() {
        // Times and sites may be damaged where the events are not. What is simulated should be all events.
        let mut events = open(path)?;
        let of_events = Census::take(&mut events).with_context(|| path.shown().into_owned())?;
        if of_events.events > census.events {
            (reader, census) = (events, of_events);
            census.times = None;
            heapwright_show::eprintln!("heapwright: {}: times or call sites are damaged, and left out", path.shown());
        }
    }
    warn_of_part(path, reader.damage(), reader.about().incomplete());
    let trace = Trace {
        file: path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
        about: reader.about().iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect(),
        events: census.events,
        blocks: census.blocks,
        peak_requested: census.peak_requested.0,
        peak_requested_at: census.peak_requested.1,
        never_freed: census.immortal.0,
        never_freed_bytes: census.immortal.1,
        requested: Line::from(&census.requested),
        clock: Clock::of(&census),
    };
    let (sites, classes) = sites::most_important(&reader, &census).unzip();
    let detail = Detail { sites: classes.unwrap_or_default(), ..Detail::default() };
    Ok(Read { census, trace, sites, detail })
}

/// Simulates all policies, side by side; returns the results in the order of the models.
pub fn simulate(path: &Path, read: &Read, models: &[Model], progress: &Progress) -> Result<Vec<Simulated>> {
    let name = || path.shown().into_owned();
    let events = read.census.events;
    let files = models.iter().map(|_| temporary::file()).collect::<Result<_>>()?;
    progress.at("simulating");
    let at = |done| progress.is_at(done, 2 * events);
    let outlines = Outline::all(&mut open(path)?, models, files, read.detail.buckets, at).map_err(with_advice);
    let outlines = outlines.with_context(name)?.into_iter().zip(models).map(|(outline, model)| {
        let under = || format!("{} under {}", path.shown(), model.policy.name());
        outline.map_err(with_advice).with_context(under)
    });
    let outlines = outlines.collect::<Result<Vec<Outline>>>()?;
    let outcomes: Vec<Outcome> = outlines.iter().map(|outline| outline.outcome().clone()).collect();
    progress.at("drawing maps");
    let trace = open(path)?;
    let mut trace = if read.sites.is_some() { trace.with_sites() } else { trace };
    let at = |done| progress.is_at(events + done, 2 * events);
    let histories = Outline::complete_all(outlines, &mut trace, &read.census, &read.detail, at).map_err(with_advice);
    Ok(outcomes
        .into_iter()
        .zip(histories.with_context(name)?)
        .map(|(outcome, history)| Simulated::of(outcome, history))
        .collect())
}

/// Adds what to do where a temporary file is too long.
fn with_advice(error: ReplayError) -> anyhow::Error {
    let advice = if let ReplayError::Places(error) = &error { temporary::advice(error) } else { "" };
    if advice.is_empty() { error.into() } else { anyhow!("{error}{advice}") }
}

impl Simulated {
    fn of(outcome: Outcome, history: History) -> Simulated {
        let History { heap, live, holes, map, peak, end } = history;
        let lines = Lines { heap: Line::from(&heap), live: Line::from(&live), holes: Line::from(&holes) };
        Simulated { outcome, lines, levels: Planes::levels(&map), peak, end }
    }
}

/// A simulation as the page reads it.
pub fn policy(simulated: Simulated, pins: Option<Pins>, map: Map) -> Policy {
    let Simulated { outcome, lines, peak, end, .. } = simulated;
    Policy {
        peak_over_requested: outcome.peak_over_requested(),
        outcome,
        lines,
        map,
        at_peak: peak.as_ref().map(State::from),
        at_end: State::from(&end),
        pins,
    }
}

/// Returns the histograms of sizes, lifetimes in events and lifetimes in bytes.
pub fn bins(census: &Census) -> [Bins; 3] {
    [&census.sizes, &census.lifetimes, &census.lifetimes_in_bytes].map(Bins::from)
}
