//! Records a program from start to end.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::num::NonZero;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

use super::collector::{Collected, Collector};
use super::left::Left;
use super::process::Details;
use super::python;
use super::recorded::{Recorded, Refused, Unread, no_stream, without_calls};
use super::room::Room;
use super::summary;
use super::traces::Traces;
use heapwright_allocators::preload;
use heapwright_host::interruption::Interruption;
use heapwright_host::names::Shown;
use heapwright_host::process::longest_file;
use heapwright_run::launch::Finished;
use heapwright_run::{NotStarted, in_front, launch, program as executable};
use heapwright_show::number;
use heapwright_stream::Header;
use heapwright_translation::{Library, Rate, Redaction};

/// Where the program's standard output goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Printed {
    /// To this command's standard output.
    Inherited,
    /// To this command's standard error: standard output has nothing but the result.
    ToErrors,
    /// Nowhere.
    Discarded,
}

/// What to record, and which traces to keep.
#[derive(Clone, Debug)]
pub struct Options {
    /// Path of the program's trace; the traces of other processes lie next to it.
    pub output: PathBuf,
    /// Names of the programs to record; empty for all.
    pub only: Vec<String>,
    /// Whether to leave out the processes that the program starts.
    pub main_only: bool,
    /// Whether to record the time of every call.
    pub times: bool,
    /// Sampling period of call sites: one request in this many; `None` records no sites.
    pub sites: Option<NonZero<u32>>,
    /// Minimum number of events for a trace of another process to be kept.
    pub least_events: u64,
    /// Whether Python takes its objects from malloc, so that they are recorded.
    pub python: bool,
    /// Whether only what is requested within marked blocks is recorded.
    pub marked: bool,
    /// Limit of the length of each trace in bytes.
    pub max_size: Option<u64>,
    /// What the traces leave out.
    pub redaction: Redaction,
    /// Where the program's standard output goes.
    pub printed: Printed,
}

impl Options {
    /// Default minimum number of events: a shorter trace says too little about an allocator to be worth keeping.
    pub const USUAL_LEAST: u64 = 10_000;

    /// The default options, with the trace at `output`.
    pub fn usual(output: PathBuf) -> Options {
        Options {
            output,
            only: Vec::new(),
            main_only: false,
            times: false,
            sites: None,
            least_events: Options::USUAL_LEAST,
            python: false,
            marked: false,
            max_size: None,
            redaction: Redaction::Nothing,
            printed: Printed::Inherited,
        }
    }
}

/// The outcome of a recorded program.
pub struct Recording {
    /// The traces that were kept, at least one: the program's own first, if there is one, then the others by descending
    /// number of events.
    pub traces: Vec<Recorded>,
    /// Traces that were removed because they have few events.
    pub left_out: Vec<Recorded>,
    /// Processes that have no trace because their calls could not be read.
    pub unread: Option<Unread>,
    /// Processes that run, and have made no call until the recording ended.
    pub unheard: Vec<Left>,
    /// Exit status of the program.
    pub status: ExitStatus,
    /// The signal by which another process asked this command to end, while the program ran.
    pub asked_to_end: Option<i32>,
    /// Wall time of the program.
    pub elapsed: Duration,
}

impl Recording {
    /// Returns the trace to analyse: the program's own, unless another process has so many more events that the program
    /// was only its wrapper, as a shell or a compiler's driver is.
    pub fn main(&self) -> &Recorded {
        /// Ratio of events from which on the program counts as a wrapper of another process.
        const WRAPPED: u64 = 10;
        let own = &self.traces[0];
        let most = self.traces.iter().max_by_key(|one| one.figures.events()).unwrap_or(own);
        let is_wrapper = !own.is_the_program || own.figures.events().saturating_mul(WRAPPED) < most.figures.events();
        if is_wrapper { most } else { own }
    }

    /// Returns the same, of a recording to temporary files.
    ///
    /// # Errors
    /// When nothing of it could be written, with what to do.
    pub fn written(&self) -> Result<&Recorded> {
        let main = self.main();
        match summary::why_empty(main) {
            Some(why) => bail!(why),
            None => Ok(main),
        }
    }

    /// Describes the processes that have no trace although they made calls, or may do so, in a line each.
    pub fn without_calls(&self) -> impl Iterator<Item = String> {
        let unread = self.unread.as_ref().map(Unread::describe);
        let unheard = (!self.unheard.is_empty()).then(|| why_unheard(&self.unheard));
        unread.into_iter().chain(unheard).chain(why_few(&self.left_out))
    }

    /// Returns how the program failed, a sentence for people, unless it succeeded or this command was asked to end it.
    pub fn failure(&self) -> Option<String> {
        let has_failed = !self.status.success() && self.asked_to_end.is_none();
        has_failed.then(|| format!("the program ended with {}; what it did until then is shown", self.status))
    }
}

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
    let interruption = Interruption::listen()?;
    let collected = collector.finish(|| interruption.came());
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

/// Says that nothing is known of processes that continue.
fn why_unheard(unheard: &[Left]) -> String {
    let names: Vec<String> = unheard.iter().map(|left| format!("{} [{}]", left.name.shown(), left.pid)).collect();
    still_running(&names, "had made no call yet")
}

/// Describes the processes without a trace that continue, and whose calls until then were few; `None` if there are
/// none.
fn why_few(left_out: &[Recorded]) -> Option<String> {
    let outlived = left_out.iter().filter(|one| one.outlived);
    let names: Vec<String> = outlived.map(|one| format!("{} [{}]", one.program.shown(), one.pid)).collect();
    (!names.is_empty()).then(|| still_running(&names, "had made few calls until then"))
}

/// Describes processes that continue, and what they had done.
fn still_running(names: &[String], done: &str) -> String {
    const LISTED: usize = 3;
    let mut listed = names[..names.len().min(LISTED)].join(", ");
    if let Some(more) = names.len().checked_sub(LISTED).filter(|&more| more > 0) {
        listed.push_str(&format!(", {} more", number::grouped(more as u64)));
    }
    let (it, was) = if names.len() == 1 { ("it", "was") } else { ("them", "were") };
    let what_to_do = format!("keep {it} in the foreground to record {it}");
    format!("{listed} {was} still running when the program ended, and {done}: {what_to_do}")
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
        let no_calls = || format!("{shown} {}", without_calls(options.marked));
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
