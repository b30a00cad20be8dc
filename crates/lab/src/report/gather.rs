//! What a report needs to know of a trace, under every policy.

use std::path::Path;
use std::sync::Mutex;
use std::thread;

use anyhow::{Context, Result, anyhow};
use heapwright_placement::PolicyKind;
use heapwright_replay::history::{Census, History, Resolution};
use heapwright_replay::{Outcome, replay};

use super::data::{Bins, Line, Lines, Policy, State, Trace};
use super::pins::Pins;
use super::planes;
use crate::progress::Progress;
use crate::replay::{RuleArguments, open};

/// What became of the heap under a policy.
pub struct Simulated {
    pub outcome: Outcome,
    pub history: History,
}

/// Reads a trace for what is true under any policy.
pub fn census(path: &Path) -> Result<(Census, Trace)> {
    let mut reader = open(path)?;
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
    };
    Ok((census, trace))
}

/// Replays a trace under each policy, as many at a time as there are processors; in the order of `policies`.
pub fn simulate(
    path: &Path,
    census: &Census,
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
            done.push((place, simulate_one(path, census, rules, policy)));
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

fn simulate_one(path: &Path, census: &Census, rules: &RuleArguments, policy: PolicyKind) -> Result<Simulated> {
    let model = rules.model(policy);
    let context = || format!("{} under {}", path.display(), policy.name());
    let outcome = replay(&mut open(path)?, &model).with_context(context)?;
    let history =
        History::of(&mut open(path)?, &model, &outcome, census, Resolution::default()).with_context(context)?;
    Ok(Simulated { outcome, history })
}

/// A simulation as the page reads it.
pub fn policy(simulated: &Simulated, pins: Option<Pins>) -> Result<Policy> {
    let Simulated { outcome, history, .. } = simulated;
    Ok(Policy {
        outcome: outcome.clone(),
        peak_over_requested: outcome.peak_over_requested(),
        lines: Lines {
            heap: Line::from(&history.heap),
            live: Line::from(&history.live),
            holes: Line::from(&history.holes),
        },
        map: planes::pack(&history.map)?,
        at_peak: history.peak.as_ref().map(State::from),
        at_end: State::from(&history.end),
        pins,
    })
}

/// The figures that the page calls sizes and lifetimes.
pub fn bins(census: &Census) -> [Bins; 3] {
    [&census.sizes, &census.lifetimes, &census.lifetimes_in_bytes].map(Bins::from)
}
