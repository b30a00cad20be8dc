//! Reads all streams of a recording while the program runs: one thread finds new streams, and one thread reads each.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use heapwright_host::descriptors::{Raised, is_shortage, open_descriptors};
use heapwright_host::process::without_signals;
use heapwright_os::FileError;
use heapwright_translation::Source;

use super::left::Left;
use super::options::Options;
use super::process::{Details, PAUSE, Process, SHORT_PAUSE, program};
use super::recorded::{Recorded, Refused, Unread};
use super::traces::{Owner, Traces};

/// How long the program's stream is expected: until it is found, it is looked for more often, as each buffer that the
/// program fills before is one more.
const EXPECTED: Duration = Duration::from_secs(1);

/// How long processes that outlive the program are still read.
const GRACE: Duration = Duration::from_millis(200);

/// Number of descriptors that a reader needs at most: of the stream, the mappings, the trace (twice), a map of made
/// code that was read, and a file with names of call sites.
const DESCRIPTORS: u64 = 6;

/// Number of descriptors that are left to the rest of this command.
const SPARE: u64 = 8;

/// The outcome of all streams.
pub struct Collected {
    /// Streams with at least one call.
    pub recorded: Vec<Recorded>,
    /// Whether the recorder was loaded into the program, even if the program made no call.
    pub recorder_was_loaded: bool,
    /// The number of the last program of the program's process into which the recorder was loaded, called or not.
    pub last_image: Option<u32>,
    /// Processes whose streams could not be read.
    pub unread: Option<Unread>,
    /// Processes to be recorded that run, and have made no call until now.
    pub unheard: Vec<Left>,
    /// Processes that could not create a stream.
    pub refused: Vec<Refused>,
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
        self.watcher.thread().unpark();
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
    /// The number of the last program that it ran with the recorder.
    last_image: Option<u32>,
    known: HashSet<Found>,
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

/// A stream that was found: its path, and its inode, which another stream of the same name does not have.
type Found = (PathBuf, u64);

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
            last_image: None,
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
        let started = Instant::now();
        loop {
            // Loaded before the scan: whatever appeared before the program ended is then found by this scan.
            let last = ended.load(Ordering::Acquire);
            self.read_new_streams()?;
            if last {
                break;
            }
            self.join_readers(JoinHandle::is_finished);
            let is_expected = self.main.is_none() && started.elapsed() < EXPECTED;
            thread::park_timeout(if is_expected { SHORT_PAUSE } else { PAUSE });
        }
        self.wake_readers();
        let left = Left::all(&self.folder);
        let remaining = self.read_what_is_left(left.clone())?;
        self.stop.store(true, Ordering::Release);
        self.wake_readers();
        self.join_readers(|_| true);
        self.read_what_waited()?;
        for recorded in &mut self.recorded {
            recorded.continued = left.iter().any(|left| recorded.is_seen && recorded.pid == left.pid);
        }
        let (recorder_was_loaded, unheard, refused) = (self.main.is_some(), self.unheard(remaining), self.refused());
        let Watcher { recorded, last_image, unread, .. } = self;
        Ok(Collected { recorded, recorder_was_loaded, last_image, unread, unheard, refused })
    }

    /// Reads what the processes that the program `left` do in the time that they are given. Returns those that run
    /// then.
    fn read_what_is_left(&mut self, mut left: Vec<Left>) -> Result<Vec<Left>> {
        let end = Instant::now() + GRACE;
        while Instant::now() < end {
            if self.readers.iter().all(JoinHandle::is_finished) {
                left.retain(|left| left.lives(&self.folder));
                if left.is_empty() {
                    left = Left::all(&self.folder);
                }
                if left.is_empty() {
                    return Ok(left);
                }
            }
            thread::sleep(PAUSE / 10);
            self.read_new_streams()?;
            self.join_readers(JoinHandle::is_finished);
        }
        Ok(Left::all(&self.folder))
    }

    /// Returns the processes of those `remaining` that still run and have no stream.
    fn unheard(&self, remaining: Vec<Left>) -> Vec<Left> {
        if self.options.main_only || !self.options.only.is_empty() {
            return Vec::new();
        }
        let is_heard = |left: &Left| self.recorded.iter().any(|one| one.is_seen && one.pid == left.pid);
        remaining.into_iter().filter(|left| !is_heard(left) && left.lives(&self.folder)).collect()
    }

    /// Returns the processes that could not create a stream, as far as they could say so.
    fn refused(&self) -> Vec<Refused> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| Refused::of(&entry.file_name())).collect()
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
        // A name can come back after it disappeared: the system reuses process ids, and the next program of a process
        // has the name of one that is not to be recorded.
        self.known.retain(|stream| found.contains(stream));
        let mut new: Vec<Found> = found.difference(&self.known).cloned().collect();
        // A process's programs in their order: the reader of its last one removes the names of all of them.
        new.sort_by(|(one, _), (other, _)| number_of_program(one).cmp(&number_of_program(other)));
        let mut waiting = None;
        let (mut opened, room) = (Vec::new(), if new.is_empty() { 0 } else { self.room() });
        for (index, stream) in new.iter().enumerate() {
            let source = if opened.len() < room { Source::open(&stream.0) } else { Err(no_descriptors()) };
            match source {
                Ok(source) => opened.push(source),
                Err(error) if error.downcast_ref().is_some_and(is_shortage) => {
                    waiting = Some(Waiting { streams: (new.len() - index) as u64, begun: opened.len(), error });
                    break;
                }
                Err(error) => self.unread = Some(Unread::of(self.unread.take(), 1, error)),
            }
            self.known.insert(stream.clone());
        }
        // All are opened before any is read, for the same reason.
        opened.into_iter().for_each(|source| self.start_reader(source));
        Ok(waiting)
    }

    /// Returns the complete streams.
    fn list(&self) -> io::Result<HashSet<Found>> {
        let streams = fs::read_dir(&self.folder)?.map(|entry| entry.map(|entry| (entry.path(), entry.ino())));
        streams.filter(|stream| stream.as_ref().map_or(true, |(path, _)| !is_temporary(path))).collect()
    }

    /// Returns how many more streams can be read at the same time, one at least if none is.
    fn room(&mut self) -> usize {
        let raised = self.raised.get_or_insert_with(Raised::to_the_most);
        let Some(most) = raised.most() else { return usize::MAX };
        let readers = (most.saturating_sub(self.taken) / DESCRIPTORS).max(1);
        usize::try_from(readers).unwrap_or(usize::MAX).saturating_sub(self.readers.len())
    }

    /// Ends the pauses of the readers: their streams may be over.
    fn wake_readers(&self) {
        self.readers.iter().for_each(|reader| reader.thread().unpark());
    }

    /// Joins the readers that are `chosen` and keeps their results; until they are joined, their stacks stay allocated.
    fn join_readers(&mut self, chosen: fn(&Reader) -> bool) {
        for reader in self.readers.extract_if(.., |reader| chosen(reader)) {
            self.recorded.extend(reader.join().ok().flatten());
        }
    }

    fn start_reader(&mut self, source: Source) {
        let seen = source.producer().seen();
        if self.main.is_none() {
            self.main = seen.filter(|seen| seen.parent == std::process::id()).map(|seen| seen.pid);
        }
        if self.is_main(&source) {
            self.last_image = self.last_image.max(Some(source.producer().image()));
        }
        if !self.is_wanted(&source) {
            return;
        }
        let owner = if self.is_main(&source) { Owner::Program } else { Owner::Descendant };
        let (traces, stop) = (self.traces.clone(), self.stop.clone());
        let (details, max_size) = (self.details.clone(), self.options.max_size);
        let redaction = self.options.redaction;
        let read = move || Process { owner, traces, details, max_size, redaction }.record(source, &stop);
        match thread::Builder::new().spawn(read) {
            Ok(reader) => self.readers.push(reader),
            Err(error) => self.unread = Some(Unread::of(self.unread.take(), 1, error.into())),
        }
    }

    /// Returns whether the process is the program's. The numbers of other namespaces say nothing.
    fn is_main(&self, source: &Source) -> bool {
        self.main.is_some() && self.main == source.producer().seen().map(|seen| seen.pid)
    }

    /// Returns whether the process is to be recorded. Dropping its stream stops the recorder in it.
    fn is_wanted(&self, source: &Source) -> bool {
        let Options { only, main_only, .. } = &self.options;
        let by_process = !main_only || self.is_main(source);
        by_process && (only.is_empty() || only.contains(&program(source)) || only.contains(&linked_program(source)))
    }
}

/// Returns the process and the number of its program that are in a stream's name.
fn number_of_program(path: &Path) -> Option<(&str, u32)> {
    let (process, image) = path.file_name()?.to_str()?.rsplit_once('-')?;
    Some((process, image.parse().ok()?))
}

/// The error of a stream that is not opened, so that those which are can be read.
fn no_descriptors() -> anyhow::Error {
    io::Error::from_raw_os_error(FileError::NoDescriptors.code()).into()
}

/// Returns whether a stream is still being created, on a file system without unnamed files.
fn is_temporary(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

/// Returns the file name of the program with links resolved.
fn linked_program(source: &Source) -> String {
    String::from_utf8_lossy(source.header().linked_program()).into_owned()
}
