//! `heapwright record`: any program, unchanged, with every call of the malloc family of every process written to a trace.
//!
//! From the bottom up: `room` (where streams lie), `source` (the stream of a process, read), `blocks` (by address), `translation` (its calls as events of a
//! trace), `traces` (the files), `collector` (all streams while the program runs), `summary` (what is said at the end).

mod blocks;
mod collector;
mod room;
mod source;
mod summary;
mod traces;
mod translation;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result};

use self::collector::{Collected, Collector};
use self::room::Room;
use self::traces::Traces;
use crate::cli::RecordArgs;
use crate::preload;
use crate::run::{FAILED, in_front, launch, not_started, program};

/// Runs the program and ends as it does, unless what was asked for could not be had.
pub fn run(args: &RecordArgs) -> ExitCode {
    match record(args) {
        Ok(code) => code,
        Err(error) => {
            anstream::eprintln!("heapwright: {error:#}");
            ExitCode::from(FAILED)
        }
    }
}

fn record(args: &RecordArgs) -> Result<ExitCode> {
    let room = Room::make().context("no room for what the program tells")?;
    let traces = Traces::at(&output(args))?;
    let mut command = Command::new(&args.program);
    command.args(&args.args).env(preload::RECORD, room.path());
    command.env(preload::LD_PRELOAD, in_front(&preload::recorder()?));

    let started = Instant::now();
    let collector = Collector::start(room.path().to_owned(), traces.clone(), args.main_only);
    let outcome = launch::to_the_end(&mut command);
    let elapsed = started.elapsed();
    let collected = collector.finish();
    // A process that ends by a signal runs no destructors.
    drop(room);
    let finished = match outcome {
        Ok(finished) => finished,
        Err(error) => {
            traces.discard();
            return Ok(not_started(&args.program, &error));
        }
    };
    let Collected { recorded, program_was_heard } = collected?;
    let recorded = traces.name_after(finished.pid, recorded)?;
    if !recorded.is_empty() {
        summary::print(&recorded, elapsed)?;
    }
    if !recorded.first().is_some_and(|first| first.is_the_program) {
        anstream::eprintln!("heapwright: {}", why_nothing(args, program_was_heard));
        return Ok(ExitCode::from(FAILED));
    }
    let failed = recorded.iter().any(|one| one.error.is_some());
    Ok(if failed { ExitCode::from(FAILED) } else { launch::end_as(finished.status) })
}

/// Where the trace goes: where it was asked for, else into the current directory under the program's name.
fn output(args: &RecordArgs) -> PathBuf {
    args.output.clone().unwrap_or_else(|| {
        let mut name = Path::new(&args.program).file_name().unwrap_or(&args.program).to_owned();
        name.push(".hwt");
        PathBuf::from(name)
    })
}

/// One sentence on why there is no trace of the program; `heard` is whether the recorder was loaded into it.
fn why_nothing(args: &RecordArgs, heard: bool) -> String {
    let name = args.program.display();
    if heard {
        return format!("nothing was recorded: {name} called nothing of the malloc family, or has a malloc of its own");
    }
    program::obstacle_of(&args.program).map_or_else(
        || format!("nothing was recorded: {name} was started anew without LD_PRELOAD (as env -i and sudo do)"),
        |obstacle| format!("nothing was recorded: {obstacle}"),
    )
}
