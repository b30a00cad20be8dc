//! The simulated figures of the policies.

use std::io::BufReader;
use std::path::Path;
use std::sync::Mutex;
use std::thread;

use anyhow::{Context, Result};
use heapwright_placement::PolicyKind;
use heapwright_replay::{Model, Outcome, Profile, profile, replay};
use heapwright_trace::Reader;

use super::comparison::Row;
use super::estimate::Estimate;
use super::interruption::{Interruptible, Interruption};
use super::metric::Metric;
use crate::progress::Progress;

/// At so many moments the holes are looked at.
const MOMENTS: u64 = 256;

/// A policy's heap, and what was seen of it.
pub struct Simulated {
    outcome: Outcome,
    profile: Profile,
}

/// Simulates all `policies`, as many at a time as there are processors; the answers are in the order of the policies.
pub fn simulate(trace: &Path, policies: &[PolicyKind], seed: u64, until: &Interruption) -> Result<Vec<Simulated>> {
    let progress = Progress::new("simulate", policies.len());
    let next = Mutex::new(policies.iter().enumerate());
    let done = Mutex::new(Vec::new());
    let work = || {
        while let Some((at, &policy)) = take(&next) {
            let simulated = simulate_one(trace, policy, seed, until).with_context(|| policy.name());
            progress.step();
            put(&done, (at, simulated));
        }
    };
    thread::scope(|scope| {
        let workers = thread::available_parallelism().map_or(1, usize::from).min(policies.len());
        (0..workers).for_each(|_| drop(scope.spawn(work)));
    });
    let mut done = done.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, simulated)| simulated).collect()
}

fn take<T>(from: &Mutex<impl Iterator<Item = T>>) -> Option<T> {
    from.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).next()
}

fn put<T>(to: &Mutex<Vec<T>>, item: T) {
    to.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(item);
}

fn simulate_one(trace: &Path, policy: PolicyKind, seed: u64, until: &Interruption) -> Result<Simulated> {
    let model = Model { seed, ..Model::usual(policy) };
    let outcome = replay(&mut open(trace, until)?, &model)?;
    let profile = profile(&mut open(trace, until)?, &model, &outcome, MOMENTS)?;
    Ok(Simulated { outcome, profile })
}

fn open(trace: &Path, until: &Interruption) -> Result<Reader<BufReader<Interruptible>>> {
    Ok(Reader::new(BufReader::new(until.open(trace)?))?)
}

impl Simulated {
    /// The most bytes, as asked, that lived at one time.
    pub fn peak_asked(&self) -> u64 {
        self.outcome.peak_requested
    }

    /// Writes the figures into the policy's row.
    pub fn fill(&self, row: &mut Row) {
        let Simulated { outcome, profile } = self;
        let at_peak = profile.at_peak.as_ref();
        let mut set = |metric, figure: Option<f64>| row.set(metric, figure.map(Estimate::exact));
        set(Metric::Heap, Some(outcome.peak_heap as f64));
        set(Metric::HeapOverAsked, outcome.peak_over_requested());
        set(Metric::External, at_peak.and_then(|moment| moment.external_fragmentation));
        set(Metric::ExternalMean, profile.mean(|moment| moment.external_fragmentation));
        set(Metric::Internal, at_peak.and_then(|moment| moment.internal_fragmentation));
        set(Metric::InternalMean, profile.mean(|moment| moment.internal_fragmentation));
        set(Metric::Holes, at_peak.map(|moment| moment.holes as f64));
        set(Metric::HolesMean, profile.mean(|moment| Some(moment.holes as f64)));
        set(Metric::Splits, Some(outcome.splits as f64));
        set(Metric::Coalesces, Some(outcome.coalesces as f64));
        set(Metric::Moved, Some(outcome.moved as f64));
        row.refused = Some(outcome.refused);
    }
}
