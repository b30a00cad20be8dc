//! Makes a comparison: simulates, replays, computes figures and recommends.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use heapwright_placement::PolicyKind;
use heapwright_replay::{Model, Outcome};

use super::comparison::{Comparison, Fidelity, SCHEMA, Settings};
use super::confirm::Program;
use super::metric::Metric;
use super::pace::Pace;
use super::recommend::recommend;
use super::recorded::Recorded;
use super::rounds::{Course, Extras, Measured, Rounds};
use super::row::Row;
use super::simulate::{Simulated, peak_asked, simulate};
use super::subject::Subject;
use super::trace::Trace;
use super::typed::Typed;
use heapwright_allocators::peers::Peer;
use heapwright_allocators::rules::ChosenRules;
use heapwright_host::interruption::Interruption;
use heapwright_host::machine::Machine;
use heapwright_host::names::Shown;
use heapwright_real::Latencies;
use heapwright_real::Script;
use heapwright_real::Threads;
use heapwright_show::output::warn_of_part;
use heapwright_stats::Estimate;

/// What is compared, and how.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Policies by name.
    pub policies: Vec<&'static str>,
    /// Allocators in addition to those that are installed.
    pub allocators: Vec<Peer>,
    /// The program to be run itself under the finalists of the real replays.
    pub program: Option<Program>,
    /// How real replays are made; `None` for simulations alone.
    pub course: Option<Course>,
    /// The seed of random fit.
    pub seed: u64,
    /// The rules of the policies' heaps.
    pub rules: ChosenRules,
    /// What was typed.
    pub typed: Typed,
}

impl Plan {
    /// Returns the default plan: every policy and every installed allocator, within a minute.
    pub fn usual() -> Plan {
        let course = Course {
            pace: Pace { rounds: None, budget: Duration::from_secs(60) },
            threads: Threads::AsRecorded,
            latencies: Latencies::On,
            seed: 1,
        };
        Plan {
            policies: PolicyKind::ALL.map(PolicyKind::name).to_vec(),
            allocators: Vec::new(),
            program: None,
            course: Some(course),
            seed: 1,
            rules: ChosenRules::USUAL,
            typed: Typed::default(),
        }
    }

    /// Returns what is compared.
    pub fn subjects(&self) -> Vec<Subject> {
        match self.course {
            Some(_) => Subject::all(&self.policies, self.rules.of_programs, &self.allocators),
            None => Subject::policies(&self.policies, self.rules.of_programs),
        }
    }
}

/// Replays a trace everywhere: simulated, then really.
///
/// An interruption (Ctrl-C) during the real replays ends them with the last whole round.
///
/// # Errors
/// When the trace cannot be read, a heap cannot be simulated, or an interruption comes before that is done.
pub fn gather(trace: &Path, plan: &Plan) -> Result<Comparison> {
    let until = Interruption::listen()?;
    let subjects = plan.subjects();
    let mut comparison = begin(trace, plan, &subjects, &until)?;
    warn_of_part(trace, comparison.trace.damage.as_ref(), comparison.trace.incomplete.as_deref());
    simulate_all(&mut comparison, trace, plan, &until)?;
    finish(comparison, trace, plan, &subjects, &until)
}

/// As [`gather`], with simulations that the caller has made: of their figures, rows get the lengths of the heaps.
///
/// # Errors
/// When the trace cannot be read.
pub fn gather_around(outcomes: &[&Outcome], trace: &Path, plan: &Plan) -> Result<Comparison> {
    let until = Interruption::listen()?;
    let subjects = plan.subjects();
    let mut comparison = begin(trace, plan, &subjects, &until)?;
    for outcome in outcomes {
        comparison.trace.peak_asked = outcome.peak_requested;
        let row = comparison.rows.iter_mut().find(|row| row.policy() == Some(outcome.policy));
        if let Some(row) = row {
            row.set(Metric::Heap, Some(Estimate::exact(outcome.peak_heap as f64)));
            row.set(Metric::HeapOverAsked, outcome.peak_over_requested().map(Estimate::exact));
        }
    }
    finish(comparison, trace, plan, &subjects, &until)
}

/// Returns a comparison without figures.
fn begin(trace: &Path, plan: &Plan, subjects: &[Subject], until: &Interruption) -> Result<Comparison> {
    Ok(Comparison {
        schema: SCHEMA,
        heapwright: env!("CARGO_PKG_VERSION").to_owned(),
        trace: Trace::read(trace, until)?,
        machine: Machine::this(),
        settings: Settings {
            seed: plan.seed,
            rules: plan.rules.of_programs.map(|_| plan.rules.simulated.to_string()),
            rule_options: plan.rules.of_programs.map(|_| plan.rules.options.clone()),
            typed: plan.typed.clone(),
            ..Settings::default()
        },
        recorded: Recorded::default(),
        fidelity: None,
        confirmation: None,
        recommendation: None,
        rows: subjects.iter().map(Subject::row).collect(),
    })
}

/// Runs the real replays, if planned, and adds the recommendation.
fn finish(
    mut comparison: Comparison,
    trace: &Path,
    plan: &Plan,
    subjects: &[Subject],
    until: &Interruption,
) -> Result<Comparison> {
    if let Some(course) = &plan.course {
        measure_all(&mut comparison, trace, subjects, course, until)?;
    }
    comparison.recommendation = Some(recommend(&comparison));
    if let (Some(program), Some(course)) = (&plan.program, &plan.course)
        && !until.came()
    {
        comparison.confirmation = Some(program.confirm(&comparison, subjects, course.pace, until)?);
        comparison.recommendation = Some(recommend(&comparison));
    }
    comparison.settings.interrupted = until.came();
    Ok(comparison)
}

fn simulate_all(comparison: &mut Comparison, trace: &Path, plan: &Plan, until: &Interruption) -> Result<()> {
    let mut rows: Vec<&mut Row> = comparison.rows.iter_mut().filter(|row| row.policy().is_some()).collect();
    let model = |policy| Model { seed: plan.seed, ..Model::of_set(policy, &plan.rules.simulated) };
    let models: Vec<Model> = rows.iter().filter_map(|row| row.policy().map(model)).collect();
    let outcomes = simulate(trace, &models, until).with_context(|| trace.shown().into_owned())?;
    let asked = match outcomes.iter().find_map(Simulated::peak_asked) {
        Some(asked) => asked,
        None => peak_asked(trace, until).with_context(|| trace.shown().into_owned())?,
    };
    for (row, outcome) in rows.iter_mut().zip(&outcomes) {
        outcome.fill(row, asked);
    }
    comparison.trace.peak_asked = asked;
    Ok(())
}

fn measure_all(
    comparison: &mut Comparison,
    trace: &Path,
    subjects: &[Subject],
    course: &Course,
    until: &Interruption,
) -> Result<()> {
    let start = Instant::now();
    let script = Script::compile(trace)?;
    comparison.trace.peak_asked = script.peak_requested();
    comparison.trace.has_times = Some(script.has_times());
    comparison.recorded = Recorded::of(&script);
    let extras = Extras::of(&script, &comparison.recorded)?;
    comparison.recorded.recorder_bytes = extras.recorder_bytes();
    let rounds = Rounds { rows: &mut comparison.rows, subjects, script: &script, course, until, extras };
    let Measured { rounds, timed_rounds, system_peak } = rounds.measure();
    comparison.settings = Settings {
        rounds,
        timed_rounds,
        threads: course.threads == Threads::AsRecorded && script.threads() > 1,
        seconds: start.elapsed().as_secs_f64(),
        ..comparison.settings.clone()
    };
    comparison.fidelity = Fidelity::of(script.recorded_peak(), system_peak);
    comparison.settle();
    Ok(())
}
