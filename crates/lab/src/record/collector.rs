//! All streams of a recording, read while the program runs: a thread that looks for new ones, and one for each.

use std::collections::HashSet;
use std::fs::{self, File};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, anyhow};
use heapwright_trace::{About, Writer};

use super::clock::Rate;
use super::merge::Told;
use super::program::Options;
use super::sites::{Library, Look, Sampled, Sites};
use super::source::{Source, Teller};
use super::traces::Traces;
use super::translation::{Clock, Figures, Translation};

/// How often it is looked for new streams, and how long a stream without anything new is left alone at most.
const PAUSE: Duration = Duration::from_millis(10);

/// How long processes that the program has left behind may go on telling.
const GRACE: Duration = Duration::from_millis(200);

/// Under which name a trace tells how many bytes the recorded process's malloc had from the system at most.
const SYSTEM_PEAK: &str = "glibc peak system bytes";

/// What is told of calls besides themselves.
#[derive(Clone, Default)]
pub struct Details {
    /// How fast the processor's counter runs, when times are recorded.
    pub rate: Option<Rate>,
    /// Of how many requests one comes with its stack, when sites are recorded.
    pub every: Option<NonZero<u32>>,
    /// What is known of files with code.
    pub library: Library,
}

/// What became of one stream.
pub struct Recorded {
    /// The process.
    pub pid: u32,
    /// Which program of the process it was, from 0.
    pub image: u32,
    /// The program's name.
    pub program: String,
    /// Whether this is the program that was to be recorded.
    pub is_the_program: bool,
    /// Whether the process began with its parent's blocks.
    pub forked: bool,
    /// Its trace.
    pub path: PathBuf,
    /// The length of the trace in bytes.
    pub length: u64,
    /// What was seen.
    pub figures: Figures,
    /// How many requests came with their stacks, if they were asked for.
    pub sampled: Option<Sampled>,
    /// The system's error number for what ended the recording before the process did.
    pub failure: Option<i32>,
    /// How many calls came after that.
    pub lost: u64,
    /// Whether the process went on after the recording.
    pub outlived: bool,
    /// Why the trace is not complete, if it is the collector's doing.
    pub error: Option<anyhow::Error>,
}

impl Recorded {
    /// Whether nothing is missing that the process called.
    pub fn is_whole(&self) -> bool {
        self.failure.is_none() && self.error.is_none()
    }
}

/// What became of all of them.
pub struct Collected {
    /// Those in which something was called.
    pub recorded: Vec<Recorded>,
    /// Whether the program itself was heard of, even if it called nothing.
    pub program_was_heard: bool,
}

/// The threads that read streams.
pub struct Collector {
    /// Set when the program has ended.
    ended: Arc<AtomicBool>,
    watcher: JoinHandle<Result<Collected>>,
}

impl Collector {
    /// Begins to read the streams that come up in `folder`, of those processes that the options ask for.
    pub fn start(folder: PathBuf, traces: Traces, options: Options, details: Details) -> Collector {
        let ended = Arc::new(AtomicBool::new(false));
        let seen_by_watcher = ended.clone();
        let watch = move || Watcher::new(folder, traces, options, details).watch(&seen_by_watcher);
        let watcher = without_signals(|| thread::spawn(watch));
        Collector { ended, watcher }
    }

    /// The program has ended: reads what is left and returns what became of all streams.
    pub fn finish(self) -> Result<Collected> {
        self.ended.store(true, Ordering::Release);
        self.watcher.join().unwrap_or_else(|_| Err(anyhow!("internal error of the recorder, please report it")))
    }
}

/// A thread that reads a stream.
type Reader = JoinHandle<Option<Recorded>>;

/// Finds streams.
struct Watcher {
    folder: PathBuf,
    traces: Traces,
    options: Options,
    details: Details,
    /// The program's process, when it has been seen.
    main: Option<u32>,
    known: HashSet<PathBuf>,
    readers: Vec<Reader>,
    recorded: Vec<Recorded>,
    /// Set when the readers are to come to an end.
    stop: Arc<AtomicBool>,
}

impl Watcher {
    fn new(folder: PathBuf, traces: Traces, options: Options, details: Details) -> Watcher {
        let (readers, recorded, stop) = (Vec::new(), Vec::new(), Arc::default());
        Watcher { folder, traces, options, details, main: None, known: HashSet::new(), readers, recorded, stop }
    }

    fn watch(mut self, ended: &AtomicBool) -> Result<Collected> {
        loop {
            // Asked first: what came up before the program ended is found after it.
            let last = ended.load(Ordering::Acquire);
            self.take_up_new_streams().context("the directory for streams is gone")?;
            if last {
                break;
            }
            self.let_go_readers(JoinHandle::is_finished);
            thread::sleep(PAUSE);
        }
        let end = Instant::now() + GRACE;
        while Instant::now() < end && self.readers.iter().any(|reader| !reader.is_finished()) {
            thread::sleep(PAUSE / 10);
        }
        self.stop.store(true, Ordering::Release);
        self.let_go_readers(|_| true);
        Ok(Collected { recorded: self.recorded, program_was_heard: self.main.is_some() })
    }

    fn take_up_new_streams(&mut self) -> Result<()> {
        let found: HashSet<PathBuf> =
            fs::read_dir(&self.folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
        // Names that are gone can come again, with the number of a process.
        let known = std::mem::replace(&mut self.known, found.clone());
        for path in found.difference(&known).filter(|path| !is_temporary(path)) {
            match Source::open(path) {
                Ok(source) => self.take_up(source),
                Err(error) => anstream::eprintln!("heapwright: a process is not recorded: its stream: {error:#}"),
            }
        }
        Ok(())
    }

    /// Waits for those readers that are `chosen` and keeps what they have to say: until then they have their stacks.
    fn let_go_readers(&mut self, chosen: fn(&Reader) -> bool) {
        for reader in self.readers.extract_if(.., |reader| chosen(reader)) {
            self.recorded.extend(reader.join().ok().flatten());
        }
    }

    fn take_up(&mut self, source: Source) {
        if self.main.is_none() && source.header().parent == std::process::id() {
            self.main = Some(source.pid());
        }
        if !self.is_wanted(&source) {
            return;
        }
        let path = self.traces.path_of(source.pid(), source.image());
        let stop = self.stop.clone();
        let details = self.details.clone();
        self.readers.push(thread::spawn(move || record(source, path, details, &stop)));
    }

    /// Whether the process is to be recorded; who lets go of its stream tells it that it is not.
    fn is_wanted(&self, source: &Source) -> bool {
        let Options { only, main_only, .. } = &self.options;
        let by_process = !main_only || self.main == Some(source.pid());
        by_process
            && (only.is_empty()
                || only.contains(&program(source))
                || executable(source).is_some_and(|name| only.contains(&name)))
    }
}

/// Runs `start`, which starts a thread: it and those that it starts leave signals to the thread that waits for them. The
/// signal for a file that reaches the limit on file sizes goes to the thread that writes, where the write fails instead.
fn without_signals<R>(start: impl FnOnce() -> R) -> R {
    // SAFETY: signal sets are plain integers, filled before they are used; masks are the calling thread's own.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let started = start();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        started
    }
}

/// Whether a stream is being made, on a file system that knows no files without names.
fn is_temporary(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

/// Writes the trace of one stream to its end, or until `stop`; `None` when nothing was called.
fn record(mut source: Source, path: PathBuf, details: Details, stop: &AtomicBool) -> Option<Recorded> {
    let mut recorded = Recorded {
        pid: source.pid(),
        image: source.image(),
        program: program(&source),
        is_the_program: false,
        forked: source.header().forked != 0,
        path,
        length: 0,
        figures: Figures::default(),
        sampled: None,
        failure: None,
        lost: 0,
        outlived: false,
        error: None,
    };
    if !has_records(&source, stop) {
        return None;
    }
    let written = write(&mut source, &mut recorded, details, stop);
    recorded.error = written.with_context(|| format!("cannot write {}", recorded.path.display())).err();
    recorded.length = fs::metadata(&recorded.path).map_or(0, |found| found.len());
    recorded.failure = source.header().failure();
    recorded.lost = source.lost();
    Some(recorded)
}

/// Waits for the first record, or for the reason why there is none; `false` when neither will come.
fn has_records(source: &Source, stop: &AtomicBool) -> bool {
    loop {
        // Asked first: what came before the end is seen after it.
        let over = source.is_over() || stop.load(Ordering::Acquire);
        let begun = source.header().begun() > 0 || source.header().failure().is_some();
        if begun || over {
            return begun;
        }
        thread::sleep(PAUSE);
    }
}

fn write(source: &mut Source, recorded: &mut Recorded, details: Details, stop: &AtomicBool) -> Result<()> {
    let clock = details.rate.map(|rate| Clock { start: source.header().first_ticks, rate });
    let mut about = about(source, &recorded.program);
    if let Some(every) = details.every {
        about.set("sites", &sampling(every));
    }
    let sites = details.every.map(|_| Sites::new(details.library, looking(source.teller())));
    let mut translation = Translation::to(Writer::new(create(&recorded.path)?, &about)?, clock, sites);
    let outcome = read_to_the_end(source, &mut translation, stop);
    recorded.figures = translation.figures().clone();
    recorded.sampled = translation.sampled();
    recorded.outlived = outcome?;
    if let Some(bytes) = source.header().peak_system_bytes() {
        translation.tell(SYSTEM_PEAK, &bytes.to_string())?;
    }
    translation.finish()?;
    Ok(())
}

/// How requests are chosen whose sites are told.
fn sampling(every: NonZero<u32>) -> String {
    match every.get() {
        1 => "of every request".to_owned(),
        every => format!("of one request in {every}: each chosen with this probability, whatever became of others"),
    }
}

/// Looks for what is mapped into a process, but never for more than a tenth of the time and a little.
fn looking(teller: Teller) -> Look {
    const LITTLE: Duration = Duration::from_millis(100);
    let (start, mut spent) = (Instant::now(), Duration::ZERO);
    Box::new(move |see| {
        let now = Instant::now();
        if spent > (now - start) / 10 + LITTLE {
            return false;
        }
        teller.each_mapping(see);
        spent += now.elapsed();
        true
    })
}

fn create(path: &Path) -> Result<File> {
    Ok(File::create(path)?)
}

/// Returns whether the process went on.
fn read_to_the_end(source: &mut Source, translation: &mut Translation<File>, stop: &AtomicBool) -> Result<bool> {
    let mut take = |told: Told| match told {
        Told::Call(call, _) => Ok(translation.take(call)?),
        Told::Mapping(mapping) => {
            translation.see(&mapping);
            Ok(())
        }
    };
    let mut over = false;
    while !over {
        // Asked before it is read: what came before the end is read after it.
        over = source.is_over();
        if !over && stop.load(Ordering::Acquire) {
            // It will come to rest soon: each thread adds at most one buffer to what there is now.
            source.close();
            while source.read(over, &mut take)? {}
            return Ok(true);
        }
        // A process that never rests is not followed for ever.
        while source.read(over, &mut take)? && (over || !stop.load(Ordering::Acquire)) {}
        if !over {
            thread::sleep(PAUSE);
        }
    }
    Ok(false)
}

fn program(source: &Source) -> String {
    let name = source.header().arguments().next().unwrap_or_default();
    let name = name.rsplit(|&byte| byte == b'/').next().unwrap_or(name);
    String::from_utf8_lossy(name).into_owned()
}

/// The name of the file that the process runs, while it lives: what a script is run by, and what links point to.
fn executable(source: &Source) -> Option<String> {
    let path = fs::read_link(format!("/proc/{}/exe", source.pid())).ok()?;
    Some(path.file_name()?.to_string_lossy().into_owned())
}

/// What the trace tells besides events.
fn about(source: &Source, program: &str) -> About {
    let arguments: Vec<_> = source.header().arguments().skip(1).map(String::from_utf8_lossy).collect();
    let mut about = About::of_program(program);
    about.set("arguments", &arguments.join(" "));
    about.set("pid", &source.pid().to_string());
    about.set("parent", &source.header().parent.to_string());
    about.set("date", &humantime::format_rfc3339_seconds(SystemTime::now()).to_string());
    about.set("machine", &machine());
    about.set("recorder", concat!("heapwright ", env!("CARGO_PKG_VERSION")));
    about
}

/// The kind of system and processor.
fn machine() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{} {} {}", std::env::consts::OS, release.trim(), std::env::consts::ARCH)
}
