//! `heapwright record`: runs an unmodified program and writes every malloc-family call of every process to a trace.
//!
//! From the bottom up: `options` (what to record), `room` (the directory of streams), `partial` (a file while it is
//! written), `reasons` (why a recording lacks something), `recorded` (the outcome of one process), `traces` (the
//! files), `totals` (what a process used), `looking` (when its mappings are listed), `process` (the trace of one
//! process), `left` (what runs when the program has ended), `collector` (all streams while the program runs), `outcome`
//! (that of a program), `program` (a program from start to end, also for other commands), `summary` (the report at the
//! end), `sampling` (which requests have a call site), `source` (a trace to analyse, recorded if need be).

mod arguments;
mod collector;
mod left;
mod looking;
mod options;
mod outcome;
mod partial;
mod process;
mod program;
mod python;
mod reasons;
mod recorded;
mod room;
pub mod sampling;
pub mod source;
mod summary;
mod totals;
mod traces;

use std::process::ExitCode;

use anyhow::Result;

pub use self::arguments::{Arguments, EXAMPLES};
pub use self::options::{Options, Printed};
pub use self::outcome::Recording;
pub use self::program::{Interrupted, program};
pub use self::recorded::{Recorded, Unread};
use heapwright_host::interruption;
pub use heapwright_translation::Redaction;

use heapwright_run::{FAILED, failed, launch};

/// Runs and records the program. Exits with its status, or with a failure if a trace could not be written, or the
/// program's own could not be completed: there is none of its name then.
pub fn run(args: &Arguments) -> ExitCode {
    record(args).unwrap_or_else(|error| {
        let code = failed(&error);
        if error.is::<Interrupted>() { interruption::exit_code() } else { code }
    })
}

fn record(args: &Arguments) -> Result<ExitCode> {
    let recording = program(&args.command(), &args.options())?;
    summary::print(&recording);
    let is_missing = |one: &Recorded| one.error.is_some() || one.is_the_program && !one.is_whole();
    let incomplete = recording.unread.is_some() || recording.traces.iter().any(is_missing);
    Ok(if incomplete { ExitCode::from(FAILED) } else { launch::end_as(recording.status) })
}
