//! Recording a program from its start to its end.

use std::ffi::{OsStr, OsString};
use std::num::NonZero;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::clock::Rate;
use super::collector::{Collector, Details, Recorded};
use super::room::Room;
use super::sites::Library;
use super::traces::Traces;
use crate::preload;
use crate::run::{NotStarted, in_front, launch, program as executable};

/// What is recorded, and what is kept of it.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the program's trace goes; those of other processes lie beside it.
    pub output: PathBuf,
    /// The names of the programs that are recorded; none for all.
    pub only: Vec<String>,
    /// Whether the processes that the program starts are left out.
    pub main_only: bool,
    /// Whether the time of every call is recorded.
    pub times: bool,
    /// Of how many requests one is recorded with where it came from; `None` for no request at all.
    pub sites: Option<NonZero<u32>>,
    /// Traces of other processes than the program's that have fewer events are not kept.
    pub least_events: u64,
}

impl Options {
    /// How many events a trace of another process has to have to be kept, if nobody says otherwise: what has fewer
    /// tells nothing about heaps.
    pub const USUAL_LEAST: u64 = 10_000;

    /// Everything that is worth keeping, into `output`.
    pub fn usual(output: PathBuf) -> Options {
        Options {
            output,
            only: Vec::new(),
            main_only: false,
            times: false,
            sites: None,
            least_events: Options::USUAL_LEAST,
        }
    }
}

/// A program that was recorded.
pub struct Recording {
    /// The traces that were kept, at least one: the program's own first, if it has one, then those with most events.
    pub traces: Vec<Recorded>,
    /// How many were not kept because they have few events.
    pub left_out: usize,
    /// How the program ended.
    pub status: ExitStatus,
    /// How long it took.
    pub elapsed: Duration,
}

impl Recording {
    /// The trace to look at: the program's own, unless another process called the malloc family so much more often that
    /// the program was but its wrapper, as a compiler's driver is or a shell.
    pub fn main(&self) -> &Recorded {
        /// How many times as many events make another process the one that is meant.
        const WRAPPED: u64 = 10;
        let own = &self.traces[0];
        let most = self.traces.iter().max_by_key(|one| one.figures.events()).unwrap_or(own);
        let is_wrapper = !own.is_the_program || own.figures.events().saturating_mul(WRAPPED) < most.figures.events();
        if is_wrapper { most } else { own }
    }
}

/// Runs `command`, a program and its arguments, and records it and all that it starts.
///
/// # Errors
/// [`NotStarted`]; nothing was recorded, with the reason; a trace could not be begun. What befalls a trace later is told by
/// [`Recorded`].
pub fn program(command: &[OsString], options: &Options) -> Result<Recording> {
    let (name, args) = command.split_first().context("there is no program to record")?;
    let room = Room::make().context("no room for what the program tells")?;
    let traces = Traces::at(&options.output)?;
    let mut command = Command::new(name);
    command.args(args).env(preload::RECORD, room.path());
    command.env(preload::LD_PRELOAD, in_front(&preload::recorder()?));
    let rate = options.times.then(Rate::measure).transpose()?;
    if rate.is_some() {
        command.env(preload::RECORD_TIMES, "1");
    }
    if let Some(every) = options.sites {
        command.env(preload::RECORD_SITES, every.to_string());
    }
    let details = Details { rate, every: options.sites, library: Library::default() };

    let started = Instant::now();
    let collector = Collector::start(room.path().to_owned(), traces.clone(), options.clone(), details);
    let outcome = launch::to_the_end(&mut command);
    let elapsed = started.elapsed();
    let collected = collector.finish();
    // Whoever ends by the program's signal runs no destructors.
    drop(room);
    let finished = outcome.map_err(|error| {
        traces.discard();
        NotStarted::because(name, &error)
    })?;
    let collected = collected?;
    let (traces, left_out) = traces.settle(finished.pid, collected.recorded, options.least_events)?;
    if traces.is_empty() {
        bail!("nothing was recorded: {}", why_nothing(name, options, collected.program_was_heard));
    }
    Ok(Recording { traces, left_out, status: finished.status, elapsed })
}

/// Why there is no trace; `heard` is whether the recorder was loaded into the program.
fn why_nothing(name: &OsStr, options: &Options, heard: bool) -> String {
    let shown = name.display();
    if !options.only.is_empty() {
        return format!("no process ran {}, as far as they can be recorded", options.only.join(" or "));
    }
    if heard {
        return format!("{shown} called nothing of the malloc family, or has a malloc of its own");
    }
    executable::obstacle_of(name)
        .unwrap_or_else(|| format!("{shown} was started anew without LD_PRELOAD (as env -i and sudo do)"))
}
