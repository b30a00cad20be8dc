//! The simulated figures of the policies.

use std::io::BufReader;
use std::path::Path;

use anyhow::{Context, Result};
use heapwright_replay::history::Census;
use heapwright_replay::{Model, Outcome, Profile, profile, replay};
use heapwright_trace::Reader;

use super::metric::Metric;
use super::row::{AtPeak, Row};
use heapwright_host::interruption::Interruption;
use heapwright_host::parallel;
use heapwright_show::progress::Progress;
use heapwright_stats::Estimate;

/// Number of moments at which the holes are sampled.
const MOMENTS: u64 = 256;

/// The simulation of a policy.
pub struct Simulated {
    outcome: Outcome,
    profile: Profile,
    odd_reason: Option<&'static str>,
}

/// Simulates all `models`, in parallel; returns the results in their order.
pub fn simulate(trace: &Path, models: &[Model], until: &Interruption) -> Result<Vec<Simulated>> {
    let progress = Progress::new("simulate", models.len());
    parallel::collect(parallel::cores(), 0..models.len(), |at| {
        let simulated = simulate_one(trace, &models[at], until).with_context(|| models[at].policy.name())?;
        progress.step();
        Ok(simulated)
    })
}

fn simulate_one(trace: &Path, model: &Model, until: &Interruption) -> Result<Simulated> {
    let outcome = replay(&mut open(trace, until)?, model)?;
    let profile = profile(&mut open(trace, until)?, model, &outcome, MOMENTS)?;
    Ok(Simulated { outcome, profile, odd_reason: model.odd_reason() })
}

fn open(trace: &Path, until: &Interruption) -> Result<Reader<'static>> {
    Ok(Reader::new(BufReader::new(until.open(trace)?))?.up_to_damage())
}

/// Returns the most bytes that a trace asks for at one time, whether there is room for them or not.
pub fn peak_asked(trace: &Path, until: &Interruption) -> Result<u64> {
    Ok(Census::take(&mut open(trace, until)?)?.peak_requested.0)
}

impl Simulated {
    /// Returns the peak of the live bytes, as requested; `None` where some requests found no place.
    pub fn peak_asked(&self) -> Option<u64> {
        (self.outcome.refused == 0).then_some(self.outcome.peak_requested)
    }

    /// Writes the figures into the row of the policy, of a trace that asks for `asked` bytes at one time.
    pub fn fill(&self, row: &mut Row, asked: u64) {
        let Simulated { outcome, profile, odd_reason } = self;
        let at_peak = profile.at_peak.as_ref();
        let mut set = |metric, figure: Option<f64>| row.set(metric, figure.map(Estimate::exact));
        set(Metric::Heap, Some(outcome.peak_heap as f64));
        set(Metric::HeapOverAsked, (asked > 0).then(|| outcome.peak_heap as f64 / asked as f64));
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
        row.reference_engine = odd_reason.map(str::to_owned);
        row.at_peak = at_peak.map(|moment| AtPeak {
            asked: moment.requested,
            rounding: moment.live.saturating_sub(moment.requested),
            holes: moment.heap.saturating_sub(moment.live),
        });
    }
}
