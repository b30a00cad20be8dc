//! Writes the trace of one process, from the beginning of its stream to the end.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::num::NonZero;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use heapwright_host::names::Shown;
use heapwright_show::shell::words;
use heapwright_trace::{About, INCOMPLETE, Totals, WriteError, Writer};
use heapwright_translation::{Clock, Figures, Library, Rate, Redaction, Sites, Source, Translation};

use super::looking::looking;
use super::python;
use super::reasons;
use super::recorded::Recorded;
use super::sampling::{self, Sampling};
use super::totals;
use super::traces::{Begun, Owner, Traces};

/// Interval between searches for new streams, and the longest interval between two reads of an idle stream.
pub const PAUSE: Duration = Duration::from_millis(10);

/// The shortest interval between two reads of a stream.
pub const SHORT_PAUSE: Duration = Duration::from_millis(1);

/// The number of buffers that a process may fill between two reads, if these need not be closer than [`SHORT_PAUSE`]:
/// few, so that the rules by which the process follows its stacks reach it before it has copied many.
const FILLED: u32 = 2;

/// The number of reads in a row that get to the end of no buffer, after which the process is waited for. The first read
/// after a pause gets only as far as the last one before it has looked.
const READS: u32 = 2;

/// The longest time for which events wait to be written. If this command is killed, they are lost.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// What is recorded of each call besides the call itself.
#[derive(Clone, Default)]
pub struct Details {
    /// Rate of the processor's counter, when times are recorded.
    pub rate: Option<Rate>,
    /// Sampling period of stacks: one request in this many, when sites are recorded.
    pub every: Option<NonZero<u32>>,
    /// Whether requests outside of marked blocks are left out.
    pub marked: bool,
    /// Cached facts about files with code.
    pub library: Library,
}

/// How the trace of a process is written.
pub struct Process {
    /// Whose trace it is.
    pub owner: Owner,
    /// Where it is written.
    pub traces: Arc<Traces>,
    /// What is recorded of each call.
    pub details: Details,
    /// Limit of its length in bytes.
    pub max_size: Option<u64>,
    /// What it leaves out.
    pub redaction: Redaction,
}

impl Process {
    /// Writes the trace of one stream until its end, or until `stop`; returns `None` if there were no calls.
    pub fn record(self, mut source: Source, stop: &AtomicBool) -> Option<Recorded> {
        let mut recorded = Recorded {
            pid: source.producer().pid(),
            is_seen: source.producer().seen().is_some(),
            is_hidden: source.producer().is_hidden(),
            image: source.producer().image(),
            program: program(&source),
            names: names(&source),
            is_the_program: false,
            exited: false,
            ran_another: false,
            successor: None,
            forked: source.header().forked != 0,
            path: PathBuf::new(),
            file: None,
            length: 0,
            figures: Figures::default(),
            totals: Totals::default(),
            share_of_calls: None,
            sampled: None,
            cut_map: None,
            stackless: 0,
            misses_operators: false,
            marked: self.details.marked,
            failure: None,
            lost: 0,
            hidden_objects: None,
            version_without_frames: None,
            continued: false,
            outlived: false,
            limit: None,
            error: None,
        };
        if !has_calls(&source, stop) {
            return None;
        }
        if let Some(seen) = source.producer().seen() {
            recorded.hidden_objects = python::hidden_objects(seen.pid);
            recorded.version_without_frames = self.details.every.and_then(|_| python::version_without_frames(seen.pid));
        }
        match self.traces.begin(self.owner, recorded.pid, recorded.image) {
            Ok(begun) => {
                (recorded.file, recorded.path) = (Some(begun.number), begun.path.clone());
                let written = self.write(&mut source, &mut recorded, begun, stop);
                recorded.error = written.with_context(|| format!("cannot write {}", recorded.path.shown())).err();
            }
            Err(error) => recorded.fail(error.context("its trace cannot be written")),
        }
        recorded.exited = source.header().last().is_some();
        // After the limit the process is no longer recorded, and its calls are not missed.
        if recorded.limit.is_none() {
            recorded.failure = source.header().failure();
            recorded.lost = source.lost();
        }
        Some(recorded)
    }

    fn write(self, source: &mut Source, recorded: &mut Recorded, begun: Begun, stop: &AtomicBool) -> Result<()> {
        let Details { rate, every, marked, library } = self.details;
        let clock = rate.map(|rate| Clock { start: source.header().first_ticks, rate });
        let mut about = about(source, &recorded.program, self.redaction);
        if let Some(every) = every {
            about.set(sampling::NAME, &Sampling::of_one_in(every).described());
        }
        if marked {
            about.set(sampling::MARKED, "only requests within the blocks that the program marked (--marked)");
        }
        let sites = every.map(|_| {
            Sites::new(source.producer(), library, looking(source.mappings()), source.paths(), self.redaction)
        });
        let file = begun.file.try_clone()?;
        let started = Writer::new(begun.file, &about).map(|writer| match self.max_size {
            Some(bytes) => writer.keeping_up().with_limit(bytes),
            None => writer.keeping_up(),
        });
        let mut translation = match started {
            Ok(writer) => Translation::to(writer, source.header().first_nanoseconds, clock, sites),
            Err(error) => {
                // Without its beginning the file is of no use.
                file.set_len(0)?;
                return Err(error.into());
            }
        };
        let ending = read_to_the_end(source, &mut translation, stop);
        recorded.sampled = translation.sampled();
        recorded.stackless = if every.is_some() { source.header().stackless() } else { 0 };
        let outcome = ending.and_then(|ending| {
            recorded.ran_another = ending == Ending::Replaced;
            recorded.outlived = ending == Ending::Stopped;
            recorded.limit = self.max_size.filter(|_| ending == Ending::Limit);
            if let Some(why) = why_incomplete(source, recorded) {
                translation.annotate(INCOMPLETE, &why)?;
            }
            totals::sample_last(source, &mut translation)?;
            recorded.totals = totals::totals(source, &translation);
            recorded.share_of_calls = totals::share_of_calls(source, translation.figures().events(), &recorded.totals);
            let lacking = reasons::lacking("the program", recorded.sampled.unwrap_or_default(), recorded.stackless);
            if !lacking.is_empty() {
                translation.annotate(sampling::LACKING, &lacking.join(". "))?;
            }
            recorded.totals.texts().try_for_each(|(name, text)| translation.annotate(name, &text))?;
            Ok(translation.write_end()?)
        });
        recorded.figures = translation.figures().clone();
        recorded.cut_map = translation.cut_map().map(|(path, length)| (path.to_owned(), length));
        recorded.misses_operators = source.header().misses_operators();
        if outcome.is_err() {
            // A part of a frame may be behind it, if the disk is full. Without any event the file is of no use.
            file.set_len(if translation.events_written() == 0 { 0 } else { translation.written() })?;
        }
        drop_aside((translation.memory(), source.memory()));
        outcome
    }
}

/// Drops what has many parts, in a thread of its own if there is one: nothing waits for that, not even the end of this
/// command.
fn drop_aside<T: Send + 'static>(parts: T) {
    let dropping = thread::Builder::new().spawn(move || drop(parts));
    // Without a thread, the function and what it holds were dropped here.
    drop(dropping);
}

/// Waits for the first call or for a failure; returns `false` if neither will come.
fn has_calls(source: &Source, stop: &AtomicBool) -> bool {
    loop {
        // Loaded first: whatever was recorded before the end is then seen below.
        let over = source.is_over() || stop.load(Ordering::Acquire);
        // Mappings of code are in buffers before any call is.
        let begun = source.header().begun() > 0 && source.has_calls() || source.header().failure().is_some();
        if begun || over {
            return begun;
        }
        thread::park_timeout(PAUSE);
    }
}

/// Returns why the trace ends before its process does.
fn why_incomplete(source: &Source, recorded: &Recorded) -> Option<String> {
    if let Some(limit) = recorded.limit {
        return Some(reasons::why_limited(limit));
    }
    let failure = source.header().failure().map(reasons::reason);
    failure.or_else(|| recorded.outlived.then(|| "the process was still running when the program ended".to_owned()))
}

/// How the reading of a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// With the process, or with its program when the next one has a stream.
    Over,
    /// With the process, which had come to run another program, without the recorder.
    Replaced,
    /// By `stop`, while the process was running.
    Stopped,
    /// At the limit of the trace's length.
    Limit,
}

/// Reads until the end of the stream, `stop`, or the limit of the trace.
fn read_to_the_end(source: &mut Source, translation: &mut Translation, stop: &AtomicBool) -> Result<Ending> {
    match read_until(source, translation, stop) {
        Err(error) if matches!(error.downcast_ref(), Some(WriteError::LimitReached { .. })) => {
            source.close();
            Ok(Ending::Limit)
        }
        ending => ending,
    }
}

fn read_until(source: &mut Source, translation: &mut Translation, stop: &AtomicBool) -> Result<Ending> {
    let (mut flushed, mut runs_another, mut pace) = (Instant::now(), false, Pace::of(source));
    totals::sample_first(source, translation)?;
    loop {
        // Loaded before the stream is read: whatever was recorded before the end is then read below.
        let over = source.is_over();
        if !over && stop.load(Ordering::Acquire) {
            // The stream drains soon: each thread adds at most one buffer to what is there now.
            source.close();
            while translation.read(source)? {}
            return Ok(Ending::Stopped);
        }
        let (mut read, mut short) = (source.buffers_read(), 0);
        while translation.read(source)? {
            // The calls that a process adds to an open buffer meanwhile are left for later: reading them one by one
            // would move the lines of the caches to and fro between the two for each.
            let before = std::mem::replace(&mut read, source.buffers_read());
            short = if read == before { short + 1 } else { 0 };
            // A process that never pauses is not followed for ever.
            if !over && (short == READS || stop.load(Ordering::Acquire)) {
                break;
            }
            flush_when_due(translation, &mut flushed)?;
        }
        if over {
            // What begins a stream late is recorded.
            let is_replaced = runs_another && !source.producer().is_replaced();
            return Ok(if is_replaced { Ending::Replaced } else { Ending::Over });
        }
        totals::sample_when_quiet(source, translation)?;
        runs_another = runs_another || source.runs_another();
        flush_when_due(translation, &mut flushed)?;
        thread::park_timeout(pace.pause(source));
    }
}

/// How fast a process fills buffers.
struct Pace {
    /// When that was last seen.
    seen: Instant,
    /// The number of buffers that the process had begun then.
    begun: u64,
}

impl Pace {
    fn of(source: &Source) -> Pace {
        Pace { seen: Instant::now(), begun: source.header().begun() }
    }

    /// Returns how long to wait for the process, by how many buffers it has begun since this was last asked.
    fn pause(&mut self, source: &Source) -> Duration {
        let now = Pace::of(source);
        let last = std::mem::replace(self, now);
        let filled = u32::try_from(self.begun.saturating_sub(last.begun)).unwrap_or(u32::MAX);
        let until_filled = (self.seen - last.seen).saturating_mul(FILLED).checked_div(filled);
        until_filled.unwrap_or(PAUSE).clamp(SHORT_PAUSE, PAUSE)
    }
}

/// Writes the events of the last second, so that no more than these are lost if this command is killed.
fn flush_when_due(translation: &mut Translation, flushed: &mut Instant) -> Result<()> {
    if flushed.elapsed() >= FLUSH_INTERVAL {
        translation.flush()?;
        *flushed = Instant::now();
    }
    Ok(())
}

/// Returns the file name of the program that writes a stream.
pub fn program(source: &Source) -> String {
    String::from_utf8_lossy(source.header().program()).into_owned()
}

/// Returns the names that the system may give the process: that of its program, or of the script that this interprets.
fn names(source: &Source) -> Vec<OsString> {
    let names = [source.header().program(), source.header().executed()];
    names.map(|name| OsStr::from_bytes(name).to_owned()).to_vec()
}

/// Returns the trace's description of the process.
fn about(source: &Source, program: &str, redaction: Redaction) -> About {
    let mut about = About::of_program(program);
    match redaction {
        Redaction::Nothing => {
            let arguments: Vec<_> = source.header().arguments().skip(1).map(String::from_utf8_lossy).collect();
            about.set("arguments", &arguments.join(" "));
            let command = source.header().whole_command();
            if let Some(command) = command.and_then(|command| words(command.map(OsStr::from_bytes))) {
                about.set("command", &command);
            }
        }
        Redaction::Private => about.set("redacted", "arguments, environment and paths are left out (--redact)"),
    }
    about.set("pid", &source.producer().pid().to_string());
    let parent = source.producer().seen().map_or(source.header().parent, |seen| seen.parent);
    about.set("parent", &parent.to_string());
    about.set("date", &humantime::format_rfc3339_seconds(SystemTime::now()).to_string());
    about.set("machine", &machine());
    about.set("recorder", concat!("heapwright ", env!("CARGO_PKG_VERSION")));
    about
}

/// Returns the kind of system and processor.
fn machine() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{} {} {}", std::env::consts::OS, release.trim(), std::env::consts::ARCH)
}
