//! `heapwright compare`: where is a program's fragmentation, and would another allocator or policy fix it?
//!
//! From the bottom up: `interruption` (Ctrl-C), `estimate` (medians and their intervals), `metric` (figures by name),
//! `subject` (who is compared), `trace` and `machine` (what and where), `comparison` (all that is found out); `simulate`
//! (policies without memory), `pace` and `rounds` (real replays), `figures` (made from rounds), `gather` (all of it);
//! `fidelity`, `fragmentation`, `recommend`, `marks`, `baseline` (what it means); `condition` and `judge` (`--fail-if`);
//! `describe`, `grid`, `show` and `export` (how it is told); `source` (where the trace comes from), `arguments`.

mod arguments;
mod baseline;
mod comparison;
mod condition;
mod describe;
mod estimate;
mod export;
mod fidelity;
mod figures;
mod fragmentation;
mod gather;
mod grid;
mod interruption;
mod judge;
mod machine;
mod marks;
mod metric;
mod pace;
mod recommend;
mod rounds;
mod show;
mod simulate;
mod source;
mod subject;
#[cfg(test)]
mod synthetic;
mod trace;

use std::process::ExitCode;

use anyhow::Result;
use clap::CommandFactory;
use clap::error::ErrorKind;

pub use self::arguments::{Arguments, EXAMPLES};
pub use self::comparison::{Comparison, Row, Sample};
pub use self::estimate::Estimate;
pub use self::gather::{Plan, gather, gather_around};
pub use self::interruption::Interruption;
use self::judge::{Field, Judgement};
pub use self::machine::Machine;
pub use self::metric::Metric;
pub use self::pace::Pace;
pub use self::recommend::Recommendation;
pub use self::rounds::Course;
pub use self::source::BUNDLED;
use crate::cli::Cli;

/// The exit code when a condition of `--fail-if` holds.
const FAILED: u8 = 1;

/// The exit code after Ctrl-C, as of shells.
pub const INTERRUPTED: u8 = 130;

/// Compares, prints what came of it, and judges.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let plan = arguments.plan();
    let before = arguments.baseline.as_deref().map(baseline::read).transpose()?;
    let judgements = judgements(arguments, &plan, before.is_some());
    for (_, path) in arguments.exports() {
        export::check(path)?;
    }
    let source = arguments.source()?;
    let comparison = gather(source.path(), &plan)?;
    // A process that ends by a signal runs no destructors.
    drop(source);
    tell(arguments, &comparison, before.as_ref())?;
    let failures: Vec<String> =
        judgements.iter().filter_map(|judgement| judgement.failure(&comparison, before.as_ref())).collect();
    failures.iter().for_each(|failure| anstream::eprintln!("heapwright: failed: {failure}"));
    Ok(match (comparison.settings.interrupted, failures.is_empty()) {
        (true, _) => ExitCode::from(INTERRUPTED),
        (false, false) => ExitCode::from(FAILED),
        (false, true) => ExitCode::SUCCESS,
    })
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
    Cli::command().error(ErrorKind::ValueValidation, format!("--fail-if: {what}")).exit()
}

/// Prints tables, unless something else goes to standard output, and writes files.
fn tell(arguments: &Arguments, comparison: &Comparison, before: Option<&Comparison>) -> Result<()> {
    if !arguments.exports().iter().any(|(_, path)| export::is_standard_output(path)) {
        show::print(comparison, before, &arguments.columns(), show::width());
    }
    arguments.exports().into_iter().try_for_each(|(form, path)| form.export(comparison, path))
}
