//! Records a program from start to end.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};

use super::collector::{Collected, Collector};
use super::options::{Options, Printed};
use super::outcome::{Recording, why_few, why_unheard};
use super::process::Details;
use super::python;
use super::recorded::{Recorded, Refused, no_stream, without_calls};
use super::room::Room;
use super::traces::Traces;
use heapwright_allocators::preload;
use heapwright_host::interruption::Interruption;
use heapwright_host::names::Shown;
use heapwright_host::process::longest_file;
use heapwright_run::launch::Finished;
use heapwright_run::{NotStarted, in_front, launch, program as executable};
use heapwright_show::number;
use heapwright_stream::Header;
use heapwright_translation::{Library, Rate};

/// A recording that was interrupted after the program had ended.
#[derive(Debug)]
pub struct Interrupted {
    /// The program's trace as far as it was written.
    partial: Option<PathBuf>,
}

impl fmt::Display for Interrupted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.partial {
            Some(path) => {
                write!(out, "interrupted: {} keeps what was written, and every command reads it", path.shown())
            }
            None => out.write_str("interrupted before anything was written"),
        }
    }
}

impl std::error::Error for Interrupted {}

/// A program that made no call which could be recorded, as its file gives no other reason.
#[derive(Debug)]
pub struct NoCalls(String);

impl fmt::Display for NoCalls {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "nothing was recorded: {}", self.0)
    }
}

impl std::error::Error for NoCalls {}

/// Runs `command`, a program and its arguments, and records it and every process that it starts. No file is changed
/// before the program has made its first call, and a trace that exists is replaced by a complete one only.
///
/// # Errors
/// [`NotStarted`]; [`Interrupted`]; nothing was recorded, with the reason; a trace could not be created. Later failures
/// of a trace are in `Recorded`.
pub fn program(command: &[OsString], options: &Options) -> Result<Recording> {
    let name = command.first().context("there is no program to record")?;
    let recorder = preload::recorder()?;
    let rate = options.times.then(Rate::measure).transpose()?;
    let room = Room::make().context("cannot create a directory for the program's streams")?;
    let traces = Arc::new(Traces::at(&options.output)?);
    let mut command = recorded_command(command, options);
    command.env(preload::RECORD, room.path()).env(preload::LD_PRELOAD, in_front(&recorder));
    let details = Details { rate, every: options.sites, marked: options.marked, library: Library::default() };
    let mut chosen = options.clone();
    chosen.main_only |= traces.is_stream();

    let collector = Collector::start(room.path().to_owned(), traces.clone(), chosen, details);
    let collector = collector.inspect_err(|_| traces.discard()).context("cannot start to record")?;
    let started = Instant::now();
    let outcome = launch::to_the_end(&mut command);
    let elapsed = started.elapsed();
    // Without it, what was recorded is read to its end.
    let interruption = Interruption::listen().ok();
    let collected = collector.finish(|| interruption.as_ref().is_some_and(Interruption::came));
    // When this process ends by the program's signal, no destructors run.
    drop(room);
    let Some(collected) = collected else {
        traces.discard();
        bail!(Interrupted { partial: traces.partial() });
    };
    let (finished, collected) = match (outcome, collected) {
        (Ok(finished), Ok(collected)) => (finished, collected),
        (Err(error), _) => {
            traces.discard();
            bail!(NotStarted::because(name, &error));
        }
        (_, Err(error)) => {
            traces.discard();
            return Err(error);
        }
    };
    let Collected { recorded, recorder_was_loaded, last_image, unread, unheard, refused } = collected;
    let (mut traces, left_out) = traces.settle(finished.pid, recorded, options.least_events);
    let namesakes = names_of_uncertain_successors(&traces, &left_out, finished.pid);
    // A program that was not to be recorded needs no reason.
    let is_chosen = |program: &Recorded| options.only.is_empty() || last_image <= Some(program.image);
    if let Some(program) = traces.first_mut().filter(|first| first.is_the_program && is_chosen(first)) {
        program.ended_as(finished.name, &namesakes, last_image, &refused);
    }
    if !traces.is_empty() {
        let Finished { status, asked_to_end, .. } = finished;
        return Ok(Recording { traces, left_out, unread, unheard, status, asked_to_end, elapsed });
    }
    if let Some(unread) = unread {
        bail!("nothing was recorded: its calls cannot be read: {}", unread.reason());
    }
    if !unheard.is_empty() {
        bail!("nothing was recorded: {}", why_unheard(&unheard));
    }
    if let Some(few) = why_few(&left_out) {
        bail!("nothing was recorded: {few}");
    }
    let refused = refused.iter().find(|refused| refused.pid == finished.pid);
    Err(why_nothing(name, options, finished.status, recorder_was_loaded, refused))
}

/// Returns the command that runs `command`, with the options that the recorder and Python read in the environment.
fn recorded_command(command: &[OsString], options: &Options) -> Command {
    let mut recorded = Command::new(&command[0]);
    recorded.args(&command[1..]).stdout(match options.printed {
        Printed::Inherited => Stdio::inherit(),
        Printed::ToErrors => Stdio::from(io::stderr()),
        Printed::Discarded => Stdio::null(),
    });
    if options.python {
        recorded.env(python::VARIABLE, python::BY_MALLOC).env(preload::RECORD_PYTHON, "1");
    }
    if options.marked {
        recorded.env(preload::RECORD_MARKED, "1");
    }
    if options.times {
        recorded.env(preload::RECORD_TIMES, "1");
    }
    if let Some(every) = options.sites {
        recorded.env(preload::RECORD_SITES, every.to_string());
    }
    recorded
}

/// Returns the names of recorded programs that may be what process `pid` ran last: one that does not see /proc numbers
/// the programs of its process anew, so that there are two of a number.
fn names_of_uncertain_successors(traces: &[Recorded], left_out: &[Recorded], pid: u32) -> Vec<OsString> {
    let of_process = || traces.iter().chain(left_out).filter(|one| one.pid == pid);
    let is_one = |one: &&Recorded| of_process().filter(|other| other.image == one.image).count() > 1;
    of_process().filter(is_one).flat_map(|one| one.names.clone()).collect()
}

/// Returns why there is no trace; `loaded` is whether the recorder made a stream for the program, and `refused` whether
/// it could not make one.
fn why_nothing(
    name: &OsStr,
    options: &Options,
    status: ExitStatus,
    loaded: bool,
    refused: Option<&Refused>,
) -> anyhow::Error {
    let shown = name.shown();
    let ended = || {
        let signal = status.signal()?;
        let signal_name = launch::signal_name(signal);
        Some(format!("{shown} was ended by signal {signal} ({signal_name}) before its first call of the malloc family"))
    };
    if !options.only.is_empty() {
        return anyhow!("nothing was recorded: no recordable process ran {}", options.only.join(" or "));
    }
    if loaded && refused.is_none() {
        let failed = if status.success() { String::new() } else { format!(" (it ended with {status})") };
        let no_calls = || format!("{shown} {}{failed}", without_calls(options.marked));
        return ended().map_or_else(|| NoCalls(no_calls()).into(), |why| anyhow!("nothing was recorded: {why}"));
    }
    if let Some(limit) = longest_file().filter(|&limit| limit < size_of::<Header>() as u64) {
        let limit = number::bytes(limit);
        let why = "which is too short for a stream of calls: raise `ulimit -f`";
        return anyhow!("nothing was recorded: files may have {limit} here, {why}");
    }
    let why = (refused.map(|refused| no_stream(refused.error)))
        .or_else(|| executable::obstacle_of(name))
        .or_else(ended)
        .unwrap_or_else(|| format!("{shown} was probably started without LD_PRELOAD (env -i and sudo do this)"));
    anyhow!("nothing was recorded: {why}")
}
