//! `heapwright compare`: where is a program's fragmentation, and would another allocator or policy fix it?
//!
//! The files, from the bottom up; each uses those before it only:
//!
//! - `metric` (figures by name), `predicted` (those of the whole program), `row` (an allocator or a policy, and its
//!   figures), `trace` (what is replayed), `recorded` (what the recorded process used), `typed` (the command line),
//!   `confirmation` (runs of the program itself), `comparison` (all that is found out), `subject` (what is compared);
//! - `figures` (made from rounds), `background` and `program` (predictions of the whole program), `start` (the cost of
//!   starting a program), `pace` and `rounds` (real replays), `simulate` (policies without memory);
//! - `marks`, `baseline`, `fidelity`, `basis`, `rival`, `fragmentation`, `act`, `recommend` (what the figures mean);
//! - `condition` and `judge` (`--fail-if`); `describe`, `show` and `export` (output);
//! - `confirm` (runs the program itself), `gather` (runs all of it), `source` (where the trace comes from),
//!   `arguments`.

mod act;
mod arguments;
mod background;
mod baseline;
mod basis;
mod comparison;
mod condition;
mod confirm;
mod confirmation;
mod describe;
mod export;
mod fidelity;
mod figures;
mod fragmentation;
mod gather;
mod judge;
mod marks;
mod metric;
mod pace;
mod predicted;
mod program;
mod recommend;
mod recorded;
mod rival;
mod rounds;
mod row;
mod show;
mod simulate;
mod source;
mod start;
mod subject;
#[cfg(test)]
mod synthetic;
mod trace;
mod typed;

use std::process::ExitCode;

use anyhow::Result;

use heapwright_host::destination::Destination;
use heapwright_host::interruption;
use heapwright_host::names::Shown;
use heapwright_show::terminal;

pub use self::arguments::{Arguments, EXAMPLES};
pub use self::comparison::{Comparison, Recommendation};
use self::confirmation::Confirmation;
use self::export::Form;
pub use self::gather::{Plan, gather, gather_around};
use self::judge::{Field, Judgement, Outcome};
pub use self::metric::Metric;
pub use self::pace::Pace;
pub use self::predicted::Predicted;
pub use self::recorded::Recorded;
pub use self::rounds::Course;
pub use self::row::{Parts, Row, Sample};
use self::source::Run;
pub use self::typed::Typed;
pub use heapwright_stats::Estimate;

/// The exit code when a condition of `--fail-if` holds, `--confirm` could not run the program, or an allocator that was
/// named could not be measured.
const FAILED: u8 = 1;

/// Compares, prints what came of it, and judges.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut plan = arguments.plan()?;
    let before = arguments.baseline.as_deref().map(baseline::read).transpose()?;
    if let Some(before) = before.as_ref().filter(|_| plan.course.is_some() && !arguments.baseline_of_another_machine) {
        baseline::ensure_of_this_machine(before)?;
    }
    let judgements = judgements(arguments, &plan, before.is_some());
    let exports = arguments.exports()?;
    let source = arguments.source()?;
    if let Some(signal) = source.asked_to_end() {
        return Ok(interruption::exit_code_of(signal));
    }
    plan.program = arguments.program(source.run())?;
    let mut comparison = gather(source.path(), &plan)?;
    comparison.trace.failure = source.run().and_then(Run::failure);
    // A process that ends by a signal runs no destructors.
    drop(source);
    tell(arguments, &exports, &comparison, before.as_ref())?;
    if let Some(before) = before.as_ref().filter(|_| !judgements.is_empty()) {
        for difference in baseline::differences(&comparison, before) {
            heapwright_show::eprintln!("heapwright: warning: {}", difference.shown());
        }
    }
    let has_failed = judge(&judgements, &comparison, before.as_ref());
    let unconfirmed = comparison.confirmation.as_ref().and_then(Confirmation::failure);
    if let Some(why) = &unconfirmed {
        heapwright_show::eprintln!("heapwright: failed: the program could not be confirmed: {}", why.shown());
    }
    let has_unusable = tell_unusable(&plan, &comparison);
    Ok(match (comparison.settings.interrupted, has_failed || has_unusable || unconfirmed.is_some()) {
        (true, _) => interruption::exit_code(),
        (false, true) => ExitCode::from(FAILED),
        (false, false) => ExitCode::SUCCESS,
    })
}

/// Prints which conditions hold, and which may; returns whether any holds.
fn judge(judgements: &[Judgement], comparison: &Comparison, before: Option<&Comparison>) -> bool {
    let outcomes: Vec<Outcome> = judgements.iter().map(|judgement| judgement.outcome(comparison, before)).collect();
    for outcome in &outcomes {
        match outcome {
            Outcome::Passes => {}
            Outcome::MayFail(why) => heapwright_show::eprintln!("heapwright: warning: {why}"),
            Outcome::Fails(why) => heapwright_show::eprintln!("heapwright: failed: {why}"),
        }
    }
    outcomes.iter().any(|outcome| matches!(outcome, Outcome::Fails(_)))
}

/// Says which of the allocators that were named could not be measured; returns whether any could not.
fn tell_unusable(plan: &Plan, comparison: &Comparison) -> bool {
    let rows = plan.allocators.iter().filter_map(|peer| comparison.row(&peer.name));
    let unusable: Vec<(&Row, &String)> = rows.filter_map(|row| Some((row, row.note.as_ref()?))).collect();
    for (row, why) in &unusable {
        heapwright_show::eprintln!("heapwright: failed: {} could not be measured: {}", row.name.shown(), why.shown());
    }
    !unusable.is_empty()
}

/// The conditions, before anything is measured: what cannot be meant is a mistake in the command.
fn judgements(arguments: &Arguments, plan: &Plan, has_baseline: bool) -> Vec<Judgement> {
    let subjects = plan.subjects();
    let subject = arguments.subject.as_deref();
    let field = Field { subjects: &subjects, is_measured: plan.course.is_some(), has_baseline, subject };
    arguments.fail_if.iter().map(|condition| field.resolve(condition).unwrap_or_else(|error| misuse(&error))).collect()
}

/// Ends as a command does that was typed wrongly.
fn misuse(what: &str) -> ! {
    heapwright_show::usage::refuse(&format!("--fail-if: {what}"))
}

/// Prints tables, unless something else goes to standard output, and writes files.
fn tell(
    arguments: &Arguments,
    exports: &[(Form, Destination)],
    comparison: &Comparison,
    before: Option<&Comparison>,
) -> Result<()> {
    // The files first: a reader of standard output that ends early ends this process.
    let (printed, files): (Vec<_>, Vec<_>) = exports.iter().partition(|export| export.1.is_open_already());
    files.into_iter().try_for_each(|(form, destination)| form.export(comparison, destination))?;
    if printed.is_empty() {
        show::print(comparison, before, &arguments.columns(), terminal::width());
    }
    printed.into_iter().try_for_each(|(form, destination)| form.export(comparison, destination))
}
