//! Reads all streams of a recording while the program runs: one thread finds new streams, and one thread reads each.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::num::NonZero;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, anyhow};
use heapwright_host::descriptors::{Raised, is_shortage, open_descriptors};
use heapwright_host::names::Shown;
use heapwright_host::process::{LONGEST_NAME, without_signals};
use heapwright_os::FileError;
use heapwright_run::program as executable;
use heapwright_show::number;
use heapwright_trace::{About, Totals, WriteError, Writer};

use heapwright_translation::{Clock, Figures, Library, Rate, Redaction, Sampled, Sites, Source, Translation};

use super::looking::looking;
use super::program::Options;
use super::python;
use super::sampling;
use super::summary;
use super::totals;
use super::traces::{Begun, Owner, Traces};

/// Interval between searches for new streams, and the longest interval between two reads of an idle stream.
const PAUSE: Duration = Duration::from_millis(10);

/// How long processes that outlive the program are still read.
const GRACE: Duration = Duration::from_millis(200);

/// The longest time for which events wait to be written. If this command is killed, they are lost.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);

/// Number of descriptors that a reader needs at most: of the stream, the mappings, the trace (twice), and a file with
/// names of call sites.
const DESCRIPTORS: u64 = 5;

/// Number of descriptors that are left to the rest of this command.
const SPARE: u64 = 8;

/// Name of the trace's entry that states why the trace ends before its process.
const INCOMPLETE: &str = "incomplete";

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

/// The outcome of one stream.
pub struct Recorded {
    /// The process.
    pub pid: u32,
    /// Index of the program within the process, from 0: each `exec` starts the next.
    pub image: u32,
    /// The program's name.
    pub program: String,
    /// The names that the system may give the process while it runs the program.
    pub(super) names: Vec<OsString>,
    /// Whether this is the program that the command started.
    pub is_the_program: bool,
    /// Whether it ended as `exit` does, which excludes that another program took its place.
    pub(super) exited: bool,
    /// What its process ran afterwards, without the recorder.
    pub(super) successor: Option<OsString>,
    /// Whether the process began as a fork, with its parent's blocks.
    pub forked: bool,
    /// Path of its trace.
    pub path: PathBuf,
    /// The number of its file; `None` if none could be created.
    pub(super) file: Option<usize>,
    /// The length of the trace in bytes.
    pub length: u64,
    /// Counts of what was recorded.
    pub figures: Figures,
    /// What the process used.
    pub totals: Totals,
    /// Number of requests with stacks, if stacks were requested.
    pub sampled: Option<Sampled>,
    /// Whether requests outside of marked blocks were left out.
    pub marked: bool,
    /// The `errno` of the failure that ended the recording before the process ended.
    pub failure: Option<i32>,
    /// Number of calls after that failure.
    pub lost: u64,
    /// Whether the process is a Python interpreter whose small objects do not come from malloc.
    pub hides_objects: bool,
    /// Whether the process was still running when the recording ended.
    pub outlived: bool,
    /// The limit of the trace's length at which the recording ended, in bytes.
    pub limit: Option<u64>,
    /// Why the trace is incomplete, if the collector is the cause.
    pub error: Option<anyhow::Error>,
}

impl Recorded {
    /// Returns a remark about Python's own allocator, if the process uses it.
    pub fn hidden_objects(&self) -> Option<String> {
        self.hides_objects.then(|| {
            format!(
                "{} [{}] keeps objects of up to 512 bytes in Python's own allocator, which the trace does not show: \
                 set PYTHONMALLOC=malloc to record them",
                self.program, self.pid
            )
        })
    }

    /// Returns a remark about the program that its process ran afterwards, without the recorder.
    pub fn unrecorded_successor(&self) -> Option<String> {
        self.successor.as_ref().map(|successor| {
            format!(
                "{} [{}] went on as {}, of which nothing was recorded: it was started without LD_PRELOAD (env -i does \
                 this), or is statically linked",
                self.program.shown(),
                self.pid,
                successor.shown()
            )
        })
    }

    /// Takes note of the name that its process, which has ended, had last: if it is none of the program's own, another
    /// program took its place.
    pub(super) fn ended_as(&mut self, name: Option<OsString>) {
        let ended = self.is_whole() && !self.outlived && self.limit.is_none();
        let is_own = |name: &OsString| self.names.iter().any(|own| cut(own) == cut(name));
        self.successor = name.filter(|name| ended && !self.exited && !name.is_empty() && !is_own(name));
    }

    /// Returns whether every call of the process was recorded, or those up to an end that was requested.
    pub fn is_whole(&self) -> bool {
        self.failure.is_none() && self.error.is_none()
    }

    /// Records a failure of the collector; the first counts.
    pub(super) fn fail(&mut self, error: anyhow::Error) {
        self.error.get_or_insert(error);
    }
}

/// The outcome of all streams.
pub struct Collected {
    /// Streams with at least one call.
    pub recorded: Vec<Recorded>,
    /// Whether the recorder was loaded into the program, even if the program made no call.
    pub recorder_was_loaded: bool,
    /// Processes whose streams could not be read.
    pub unread: Option<Unread>,
}

/// Processes that made calls of which none was recorded.
#[derive(Debug)]
pub struct Unread {
    /// Their number.
    pub processes: u64,
    /// The reason, of the first of them.
    pub error: anyhow::Error,
}

impl Unread {
    /// Returns what was counted `before`, and these processes.
    fn of(before: Option<Unread>, processes: u64, error: anyhow::Error) -> Unread {
        let before = before.unwrap_or(Unread { processes: 0, error });
        Unread { processes: before.processes + processes, ..before }
    }

    /// Returns the reason in words.
    pub(super) fn reason(&self) -> String {
        summary::in_words(&self.error)
    }

    /// Describes them in a line.
    pub fn describe(&self) -> String {
        let processes = match self.processes {
            1 => "1 process is".to_owned(),
            more => format!("{} processes are", number::grouped(more)),
        };
        format!("{processes} not recorded: the calls cannot be read: {}", self.reason())
    }
}

/// Handle of the threads that read streams.
pub struct Collector {
    /// Set when the program has ended.
    ended: Arc<AtomicBool>,
    watcher: JoinHandle<Result<Collected>>,
}

impl Collector {
    /// Starts to read the streams that appear in `folder`, of the processes that the options select.
    ///
    /// # Errors
    /// When the system has no room for a thread.
    pub fn start(folder: PathBuf, traces: Arc<Traces>, options: Options, details: Details) -> io::Result<Collector> {
        let ended = Arc::new(AtomicBool::new(false));
        let seen_by_watcher = ended.clone();
        let watch = move || Watcher::new(folder, traces, options, details).watch(&seen_by_watcher);
        let watcher = without_signals(|| thread::Builder::new().spawn(watch))?;
        Ok(Collector { ended, watcher })
    }

    /// Reads the rest after the program has ended, and returns the outcome of all streams; `None` if `is_interrupted`
    /// before that.
    pub fn finish(self, is_interrupted: impl Fn() -> bool) -> Option<Result<Collected>> {
        self.ended.store(true, Ordering::Release);
        while !self.watcher.is_finished() {
            if is_interrupted() {
                return None;
            }
            thread::sleep(PAUSE / 10);
        }
        Some(self.collected())
    }

    fn collected(self) -> Result<Collected> {
        self.watcher.join().unwrap_or_else(|_| Err(anyhow!("internal error of the recorder, please report it")))
    }
}

/// A thread that reads a stream.
type Reader = JoinHandle<Option<Recorded>>;

/// Finds new streams.
struct Watcher {
    folder: PathBuf,
    traces: Arc<Traces>,
    options: Options,
    details: Details,
    /// The program's process id, once it is known.
    main: Option<u32>,
    known: HashSet<PathBuf>,
    readers: Vec<Reader>,
    recorded: Vec<Recorded>,
    unread: Option<Unread>,
    /// The limit on descriptors, raised once the program has started: it does not inherit that.
    raised: Option<Raised>,
    /// Number of descriptors that are not for readers.
    taken: u64,
    /// Set when the readers are to stop.
    stop: Arc<AtomicBool>,
}

/// Streams that cannot be read yet.
struct Waiting {
    /// Their number.
    streams: u64,
    /// How many others were begun by the same search.
    begun: usize,
    /// Why they wait.
    error: anyhow::Error,
}

impl Watcher {
    fn new(folder: PathBuf, traces: Arc<Traces>, options: Options, details: Details) -> Watcher {
        Watcher {
            folder,
            traces,
            options,
            details,
            main: None,
            known: HashSet::new(),
            readers: Vec::new(),
            recorded: Vec::new(),
            unread: None,
            raised: None,
            taken: open_descriptors() + SPARE,
            stop: Arc::default(),
        }
    }

    fn watch(mut self, ended: &AtomicBool) -> Result<Collected> {
        loop {
            // Loaded before the scan: whatever appeared before the program ended is then found by this scan.
            let last = ended.load(Ordering::Acquire);
            self.read_new_streams()?;
            if last {
                break;
            }
            self.join_readers(JoinHandle::is_finished);
            thread::sleep(PAUSE);
        }
        let end = Instant::now() + GRACE;
        while Instant::now() < end && self.readers.iter().any(|reader| !reader.is_finished()) {
            thread::sleep(PAUSE / 10);
        }
        self.stop.store(true, Ordering::Release);
        self.join_readers(|_| true);
        self.read_what_waited()?;
        let recorder_was_loaded = self.main.is_some();
        Ok(Collected { recorded: self.recorded, recorder_was_loaded, unread: self.unread })
    }

    /// Reads the streams for which there were no descriptors or no memory, now that the others have been read.
    fn read_what_waited(&mut self) -> Result<()> {
        while let Some(Waiting { streams, begun, error }) = self.read_new_streams()? {
            self.join_readers(|_| true);
            if begun == 0 {
                self.unread = Some(Unread::of(self.unread.take(), streams, error));
                break;
            }
        }
        self.join_readers(|_| true);
        Ok(())
    }

    /// Begins to read the streams that have appeared, as far as there are descriptors and memory. Returns what waits.
    fn read_new_streams(&mut self) -> Result<Option<Waiting>> {
        let found = match self.list() {
            Ok(found) => found,
            Err(error) if is_shortage(&error) => {
                return Ok(Some(Waiting { streams: 1, begun: 0, error: error.into() }));
            }
            Err(error) => return Err(error).context("the directory for streams is gone"),
        };
        // A name can come back after it disappeared, because the system reuses process ids.
        self.known.retain(|path| found.contains(path));
        let mut new: Vec<PathBuf> = found.difference(&self.known).cloned().collect();
        // A process's programs in their order: the reader of its last one removes the names of all of them.
        new.sort_by_key(|path| number_of_program(path));
        let mut waiting = None;
        let (mut opened, room) = (Vec::new(), if new.is_empty() { 0 } else { self.room() });
        for (index, path) in new.iter().enumerate() {
            let source = if opened.len() < room { Source::open(path) } else { Err(no_descriptors()) };
            match source {
                Ok(source) => opened.push(source),
                Err(error) if error.downcast_ref().is_some_and(is_shortage) => {
                    waiting = Some(Waiting { streams: (new.len() - index) as u64, begun: opened.len(), error });
                    break;
                }
                Err(error) => self.unread = Some(Unread::of(self.unread.take(), 1, error)),
            }
            self.known.insert(path.clone());
        }
        // All are opened before any is read, for the same reason.
        opened.into_iter().for_each(|source| self.start_reader(source));
        Ok(waiting)
    }

    /// Returns the names of the complete streams.
    fn list(&self) -> io::Result<HashSet<PathBuf>> {
        let paths = fs::read_dir(&self.folder)?.map(|entry| Ok(entry?.path()));
        paths.filter(|path| path.as_ref().map_or(true, |path| !is_temporary(path))).collect()
    }

    /// Returns how many more streams can be read at the same time, one at least if none is.
    fn room(&mut self) -> usize {
        let raised = self.raised.get_or_insert_with(Raised::to_the_most);
        let Some(most) = raised.most() else { return usize::MAX };
        let readers = (most.saturating_sub(self.taken) / DESCRIPTORS).max(1);
        usize::try_from(readers).unwrap_or(usize::MAX).saturating_sub(self.readers.len())
    }

    /// Joins the readers that are `chosen` and keeps their results; until they are joined, their stacks stay allocated.
    fn join_readers(&mut self, chosen: fn(&Reader) -> bool) {
        for reader in self.readers.extract_if(.., |reader| chosen(reader)) {
            self.recorded.extend(reader.join().ok().flatten());
        }
    }

    fn start_reader(&mut self, source: Source) {
        if self.main.is_none() && source.header().parent == std::process::id() {
            self.main = Some(source.pid());
        }
        if !self.is_wanted(&source) {
            return;
        }
        let owner = if self.main == Some(source.pid()) { Owner::Program } else { Owner::Descendant };
        let (traces, stop) = (self.traces.clone(), self.stop.clone());
        let (details, max_size) = (self.details.clone(), self.options.max_size);
        let redaction = self.options.redaction;
        let read = move || Process { owner, traces, details, max_size, redaction }.record(source, &stop);
        match thread::Builder::new().spawn(read) {
            Ok(reader) => self.readers.push(reader),
            Err(error) => self.unread = Some(Unread::of(self.unread.take(), 1, error.into())),
        }
    }

    /// Returns whether the process is to be recorded. Dropping its stream stops the recorder in it.
    fn is_wanted(&self, source: &Source) -> bool {
        let Options { only, main_only, .. } = &self.options;
        let by_process = !main_only || self.main == Some(source.pid());
        by_process
            && (only.is_empty()
                || only.contains(&program(source))
                || executed_file(source).is_some_and(|name| only.contains(&name)))
    }
}

/// Returns the process and the number of its program that are in a stream's name.
fn number_of_program(path: &Path) -> Option<(u32, u32)> {
    let (pid, image) = path.file_name()?.to_str()?.split_once('-')?;
    Some((pid.parse().ok()?, image.parse().ok()?))
}

/// The error of a stream that is not opened, so that those which are can be read.
fn no_descriptors() -> anyhow::Error {
    io::Error::from_raw_os_error(FileError::NoDescriptors.code()).into()
}

/// Returns whether a stream is still being created, on a file system without unnamed files.
fn is_temporary(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

/// How the trace of a process is written.
struct Process {
    owner: Owner,
    traces: Arc<Traces>,
    details: Details,
    max_size: Option<u64>,
    redaction: Redaction,
}

impl Process {
    /// Writes the trace of one stream until its end, or until `stop`; returns `None` if there were no calls.
    fn record(self, mut source: Source, stop: &AtomicBool) -> Option<Recorded> {
        let mut recorded = Recorded {
            pid: source.pid(),
            image: source.image(),
            program: program(&source),
            names: names(&source),
            is_the_program: false,
            exited: false,
            successor: None,
            forked: source.header().forked != 0,
            path: PathBuf::new(),
            file: None,
            length: 0,
            figures: Figures::default(),
            totals: Totals::default(),
            sampled: None,
            marked: self.details.marked,
            failure: None,
            lost: 0,
            hides_objects: false,
            outlived: false,
            limit: None,
            error: None,
        };
        if !has_calls(&source, stop) {
            return None;
        }
        recorded.hides_objects = python::hides_objects(source.pid());
        match self.traces.begin(self.owner, source.pid(), source.image()) {
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
            about.set(sampling::NAME, &sampling::described(every));
        }
        if marked {
            about.set("marked", "only requests within the blocks that the program marked (--marked)");
        }
        let sites = every
            .map(|_| Sites::new(source.pid(), library, looking(source.mappings()), source.paths(), self.redaction));
        let file = begun.file.try_clone()?;
        let started = Writer::new(begun.file, &about).map(|writer| match self.max_size {
            Some(bytes) => writer.with_limit(bytes),
            None => writer,
        });
        let mut translation = match started {
            Ok(writer) => Translation::to(writer, source.header().first_nanoseconds, clock, sites),
            Err(error) => {
                // Without its beginning the file is of no use.
                file.set_len(0)?;
                return Err(error.into());
            }
        };
        let outcome = read_to_the_end(source, &mut translation, stop).and_then(|ending| {
            recorded.outlived = ending == Ending::Stopped;
            recorded.limit = self.max_size.filter(|_| ending == Ending::Limit);
            if let Some(why) = why_incomplete(source, recorded) {
                translation.annotate(INCOMPLETE, &why)?;
            }
            totals::sample_last(source, &mut translation)?;
            recorded.totals = totals::totals(source, &translation);
            recorded.totals.texts().try_for_each(|(name, text)| translation.annotate(name, &text))?;
            Ok(translation.write_end()?)
        });
        recorded.figures = translation.figures().clone();
        recorded.sampled = translation.sampled();
        if outcome.is_err() {
            // A part of a frame may be behind it, if the disk is full.
            file.set_len(translation.written())?;
        }
        outcome
    }
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
        thread::sleep(PAUSE);
    }
}

/// Returns why the trace ends before its process does.
fn why_incomplete(source: &Source, recorded: &Recorded) -> Option<String> {
    if let Some(limit) = recorded.limit {
        return Some(summary::why_limited(limit));
    }
    let failure = source.header().failure().map(summary::reason);
    failure.or_else(|| recorded.outlived.then(|| "the process was still running when the program ended".to_owned()))
}

/// How the reading of a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// With the process.
    Over,
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
    let mut flushed = Instant::now();
    totals::sample_first(source, translation)?;
    loop {
        // Loaded before the stream is read: whatever was recorded before the end is then read below.
        let over = source.is_over();
        if !over && stop.load(Ordering::Acquire) {
            // The stream drains soon: each thread adds at most one buffer to what is there now.
            source.close();
            while translation.read(source, over)? {}
            return Ok(Ending::Stopped);
        }
        // A process that never pauses is not followed for ever.
        while translation.read(source, over)? && (over || !stop.load(Ordering::Acquire)) {
            flush_when_due(translation, &mut flushed)?;
        }
        if over {
            return Ok(Ending::Over);
        }
        totals::sample_when_quiet(source, translation)?;
        flush_when_due(translation, &mut flushed)?;
        thread::sleep(PAUSE);
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

fn program(source: &Source) -> String {
    String::from_utf8_lossy(file_name(source.header().arguments().next().unwrap_or_default())).into_owned()
}

/// Returns the names that the system may give the process: that of its program, or of the script that this interprets.
fn names(source: &Source) -> Vec<OsString> {
    /// The most arguments of an interpreter in front of its script: one that the script names, and one of `env`.
    const OPTIONS: usize = 2;
    let arguments = source.header().arguments();
    let is_script = |argument: &[u8]| executable::is_script(Path::new(OsStr::from_bytes(argument)));
    let own = arguments.take(OPTIONS + 2).enumerate().filter(|&(at, argument)| at == 0 || is_script(argument));
    own.map(|(_, argument)| OsStr::from_bytes(file_name(argument)).to_owned()).collect()
}

fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
}

/// Returns as much of a name as the system keeps.
fn cut(name: &OsStr) -> &[u8] {
    let name = name.as_bytes();
    &name[..name.len().min(LONGEST_NAME)]
}

/// Returns the file name of the executable while the process lives: for a script its interpreter, with links resolved.
fn executed_file(source: &Source) -> Option<String> {
    let path = fs::read_link(format!("/proc/{}/exe", source.pid())).ok()?;
    Some(path.file_name()?.to_string_lossy().into_owned())
}

/// Returns the trace's description of the process.
fn about(source: &Source, program: &str, redaction: Redaction) -> About {
    let mut about = About::of_program(program);
    match redaction {
        Redaction::Nothing => {
            let arguments: Vec<_> = source.header().arguments().skip(1).map(String::from_utf8_lossy).collect();
            about.set("arguments", &arguments.join(" "));
        }
        Redaction::Private => about.set("redacted", "arguments, environment and paths are left out (--redact)"),
    }
    about.set("pid", &source.pid().to_string());
    about.set("parent", &source.header().parent.to_string());
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
