//! What a report needs to know of a trace, under every policy.

use std::path::Path;
use std::sync::Mutex;
use std::thread;

use anyhow::{Context, Result, anyhow};
use heapwright_placement::PolicyKind;
use heapwright_replay::history::{Census, Detail, History, Moment};
use heapwright_replay::{Outcome, replay};

use super::data::{Bins, Clock, Line, Lines, Map, Policy, State, Trace};
use super::pins::Pins;
use super::planes::Planes;
use super::sites::{self, Sites};
use crate::progress::Progress;
use crate::replay::{RuleArguments, open};

/// What became of the heap under a policy.
pub struct Simulated {
    pub outcome: Outcome,
    pub lines: Lines,
    /// The map, from fine to coarse.
    pub levels: Vec<Planes>,
    pub peak: Option<Moment>,
    pub end: Moment,
}

/// What is true of a trace under any policy, and what is to be seen of it under each.
pub struct Read {
    pub census: Census,
    pub trace: Trace,
    /// `None` when the trace does not tell of call sites.
    pub sites: Option<Sites>,
    pub detail: Detail,
}

/// Reads a trace for what is true under any policy.
pub fn read(path: &Path) -> Result<Read> {
    let mut reader = open(path)?.with_sites().with_times();
    let census = Census::take(&mut reader).with_context(|| path.display().to_string())?;
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
        clock: census.times.as_ref().map(Clock::from),
    };
    let (sites, classes) = sites::most_important(&reader, &census).unzip();
    let detail = Detail { sites: classes.unwrap_or_default(), ..Detail::default() };
    Ok(Read { census, trace, sites, detail })
}

/// Replays a trace under each policy, as many at a time as there are processors; in the order of `policies`.
pub fn simulate(
    path: &Path,
    read: &Read,
    rules: &RuleArguments,
    policies: &[PolicyKind],
    progress: &Progress,
) -> Result<Vec<Simulated>> {
    let waiting = Mutex::new(policies.iter().copied().enumerate());
    let next = || waiting.lock().ok()?.next();
    let work = || {
        let mut done = Vec::new();
        while let Some((place, policy)) = next() {
            progress.at(policy.name());
            done.push((place, simulate_one(path, read, rules, policy)));
            progress.step();
        }
        done
    };
    let workers = thread::available_parallelism().map_or(1, usize::from).min(policies.len());
    let done = thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let joined = threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a simulation broke off")));
        joined.collect::<Result<Vec<_>>>()
    })?;
    let mut all: Vec<_> = done.into_iter().flatten().collect();
    all.sort_by_key(|(place, _)| *place);
    all.into_iter().map(|(_, simulated)| simulated).collect()
}

fn simulate_one(path: &Path, read: &Read, rules: &RuleArguments, policy: PolicyKind) -> Result<Simulated> {
    let model = rules.model(policy);
    let context = || format!("{} under {}", path.display(), policy.name());
    let outcome = replay(&mut open(path)?, &model).with_context(context)?;
    let trace = open(path)?;
    let mut trace = if read.sites.is_some() { trace.with_sites() } else { trace };
    let history = History::of(&mut trace, &model, &outcome, &read.census, &read.detail).with_context(context)?;
    let lines =
        Lines { heap: Line::from(&history.heap), live: Line::from(&history.live), holes: Line::from(&history.holes) };
    Ok(Simulated { outcome, lines, levels: Planes::levels(&history.map), peak: history.peak, end: history.end })
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

/// The figures that the page calls sizes and lifetimes.
pub fn bins(census: &Census) -> [Bins; 3] {
    [&census.sizes, &census.lifetimes, &census.lifetimes_in_bytes].map(Bins::from)
}
