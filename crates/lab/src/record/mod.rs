//! `heapwright record`: any program, unchanged, with every call of the malloc family of every process written to a trace.
//!
//! From the bottom up: `room` (where streams lie), `merge` (threads' buffers in order), `source` (the stream of a process, read), `blocks` (by address), `clock` (times), `sites` (stacks), `translation` (its calls as events of a
//! trace), `traces` (the files), `collector` (all streams while the program runs), `program` (a program from start to end, for
//! other commands too), `summary` (what is said at the end).

mod arguments;
mod blocks;
mod clock;
mod collector;
mod merge;
mod program;
mod room;
mod sites;
mod source;
mod summary;
mod traces;
mod translation;

use std::process::ExitCode;

use anyhow::Result;

pub use self::arguments::{Arguments, EXAMPLES};
pub use self::program::{Options, Recording, program};
use crate::run::{FAILED, failed, launch};

/// Runs the program and ends as it does, unless what was asked for could not be had.
pub fn run(args: &Arguments) -> ExitCode {
    record(args).unwrap_or_else(|error| failed(&error))
}

fn record(args: &Arguments) -> Result<ExitCode> {
    let recording = program(&args.command(), &args.options())?;
    summary::print(&recording)?;
    let incomplete = recording.traces.iter().any(|one| one.error.is_some());
    Ok(if incomplete { ExitCode::from(FAILED) } else { launch::end_as(recording.status) })
}
