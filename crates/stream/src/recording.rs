//! The process's side of its stream.

use core::ffi::CStr;
use core::fmt::Write;
use core::mem::size_of;
use core::ptr::null_mut;

use heapwright_os::{
    FileError, Identity, Line, SegmentFile, Window, page_size, parent_process_id, sleep_for_a_millisecond, uncancelled,
};

use crate::header::{CLOSED, Header, PLACES, WINDOW};
use crate::record::{RECORD, Record};

/// The longest path that a process can open.
const PATH_LENGTH: usize = 4096;

/// The first window is mapped in parts, each as long as all before it, for most processes need little of it.
const FIRST_PART: u64 = 64 << 10;

/// How a process came to run its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// By `exec`, with an empty heap.
    Exec,
    /// By `fork`, with its parent's heap.
    Fork,
}

/// How far a process goes on when its collector does not follow.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How many records the collector may be behind; the process waits for it then. Not more than 254 windows hold.
    pub behind: u64,
    /// For how many milliseconds it waits without seeing any progress.
    pub patience: u32,
}

impl Limits {
    /// 512 MiB and ten seconds.
    pub const USUAL: Limits = Limits { behind: (512 << 20) / RECORD as u64, patience: 10_000 };
}

/// A stream under way. Nothing here allocates or changes `errno`.
pub struct Recording {
    /// Where the next record goes, and the end of the window; equal when the window is full or there is none.
    next: *mut [u64; 2],
    end: *mut [u64; 2],
    /// How many records there are.
    records: u64,
    header: Window,
    window: Option<Window>,
    /// How many places for windows the file has.
    places: u32,
    /// The window whose place comes to be used again next.
    oldest: u64,
    path: Line<PATH_LENGTH>,
    limits: Limits,
    ended: bool,
}

// SAFETY: a recording owns what its pointers point to.
unsafe impl Send for Recording {}

impl Recording {
    /// Makes a stream for the calling process in `directory`.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn begin(directory: &CStr, origin: Origin, limits: Limits) -> Result<Recording, FileError> {
        let process = Identity::mine();
        let length = page_size().max(size_of::<Header>());
        let header = |forked| Header::new(process.word(), parent_process_id(), forked, length as u32);
        uncancelled(|| {
            let mut attempt = 0;
            let (path, header) = loop {
                let path = path_of(directory, process.pid, attempt)?;
                let made = Window::create(directory, c_string(&path), length, |start| {
                    let start = start.cast::<Header>();
                    // SAFETY: the file is at least as long as a header, aligned to a page, and nobody else has it.
                    unsafe {
                        start.write(header(u32::from(origin == Origin::Fork)));
                        note_command(&mut *start.as_ptr());
                    }
                });
                match made {
                    Ok(header) => break (path, header),
                    Err(FileError::Exists) => attempt += 1,
                    Err(error) => return Err(error),
                }
            };
            Ok(Recording {
                next: null_mut(),
                end: null_mut(),
                records: 0,
                header,
                window: None,
                places: 1,
                oldest: 0,
                path,
                limits,
                ended: false,
            })
        })
    }

    /// Adds a record; when the stream cannot be continued it ends, and the record counts as lost.
    #[inline(always)]
    pub fn append(&mut self, record: Record) {
        if self.next == self.end && !self.make_room() {
            return;
        }
        // SAFETY: `next` lies within the window, which is backed and ours, and has room for a record up to `end`.
        unsafe {
            self.next.write(record.to_words());
            self.next = self.next.add(1);
        }
        self.records += 1;
        self.header().commit(self.records);
    }

    #[inline(always)]
    fn header(&self) -> &Header {
        // SAFETY: the window holds a header, and whatever changes in it is atomic.
        unsafe { self.header.base().cast().as_ref() }
    }

    /// Goes on to the next window; `false` when the recording has ended.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self) -> bool {
        if !self.ended {
            match uncancelled(|| self.open_window()) {
                Ok(()) => return true,
                Err(reason) => self.end(reason),
            }
        }
        self.header().lose_one();
        false
    }

    /// Maps the next window, or the next part of the first one.
    fn open_window(&mut self) -> Result<(), Reason> {
        self.wait_for_collector()?;
        let at = self.records * RECORD as u64;
        let length = if at < WINDOW {
            at.max(FIRST_PART).min(WINDOW - at)
        } else {
            let place = self.take_place();
            self.header().set_place(at / WINDOW, place);
            WINDOW
        };
        let from = self.header().place_of(at);
        // The old window goes first: a process that is short of addresses needs room for one only.
        self.window = None;
        let window = Window::open(c_string(&self.path), from, length as usize).map_err(Reason::Refused)?;
        self.next = window.base().as_ptr().cast();
        // SAFETY: the end of the window.
        self.end = unsafe { self.next.add(window.length() / RECORD) };
        self.window = Some(window);
        Ok(())
    }

    /// The place of a window that the collector is done with, so that a collector that keeps up makes do with a few, whose memory
    /// stays warm; else a new one at the end of the file.
    fn take_place(&mut self) -> u32 {
        let read = self.header().consumed().saturating_mul(RECORD as u64) / WINDOW;
        if self.oldest < read {
            self.oldest += 1;
            return self.header().place(self.oldest - 1);
        }
        self.places += 1;
        self.places - 1
    }

    /// Waits while the collector is too far behind.
    fn wait_for_collector(&self) -> Result<(), Reason> {
        let mut consumed = self.header().consumed();
        let mut waited = 0;
        let behind = self.limits.behind.min((PLACES - 2) * WINDOW / RECORD as u64);
        while consumed != CLOSED && self.records.saturating_sub(consumed) > behind {
            if waited == self.limits.patience {
                return Err(Reason::CollectorGone);
            }
            sleep_for_a_millisecond();
            waited = if self.header().consumed() == consumed { waited + 1 } else { 0 };
            consumed = self.header().consumed();
        }
        if consumed == CLOSED { Err(Reason::Closed) } else { Ok(()) }
    }

    #[cold]
    fn end(&mut self, reason: Reason) {
        (self.next, self.end) = (null_mut(), null_mut());
        self.window = None;
        self.ended = true;
        match reason {
            Reason::Closed => {}
            Reason::Refused(error) => self.header().fail(error.code()),
            Reason::CollectorGone => {
                self.header().fail(TIMED_OUT);
                // Nobody else will.
                let _ = uncancelled(|| heapwright_os::unlink(c_string(&self.path)));
            }
        }
    }
}

/// The system's number for "timed out".
const TIMED_OUT: i32 = 110;

/// Why a recording ends before its process does.
enum Reason {
    /// The collector wants no more.
    Closed,
    /// The collector reads no more.
    CollectorGone,
    /// The system refused the next part of the file.
    Refused(FileError),
}

/// The path of a process's stream: a program that is replaced by another leaves one of its own.
fn path_of(directory: &CStr, pid: u32, attempt: u32) -> Result<Line<PATH_LENGTH>, FileError> {
    let mut path = Line::new();
    path.push(directory.to_bytes());
    let _ = write!(path, "/{pid}-{attempt}\0");
    if path.bytes().ends_with(b"\0") { Ok(path) } else { Err(FileError::NotFound) }
}

fn c_string<const N: usize>(text: &Line<N>) -> &CStr {
    CStr::from_bytes_until_nul(text.bytes()).unwrap_or_default()
}

/// Notes the command line, as far as the system tells it and there is room.
fn note_command(header: &mut Header) {
    let read = SegmentFile::open_read_only(c"/proc/self/cmdline").and_then(|file| file.read_at(0, &mut header.command));
    header.command_length = read.unwrap_or(0) as u32;
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::path::{Path, PathBuf};
    use std::vec::Vec;
    use std::{format, fs};

    use super::*;
    use crate::record::Call;

    fn directory(name: &str) -> (PathBuf, CString) {
        let path = std::env::temp_dir().join(format!("heapwright-stream-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        let text = CString::new(path.to_str().unwrap()).unwrap();
        (path, text)
    }

    fn record(number: u64) -> Record {
        Record { call: Call::Malloc, log2_align: 4, size: number, thread: number as u16, address: number << 4 }
    }

    fn records_in(path: &Path, count: u64) -> Vec<Record> {
        let file = fs::read(path).unwrap();
        let word = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
        // SAFETY: any bytes are a header.
        let header = unsafe { core::ptr::read_unaligned(file.as_ptr().cast::<Header>()) };
        let at = |number: u64| header.place_of(number * RECORD as u64) as usize;
        (0..count).map(|number| Record::from_words([word(at(number)), word(at(number) + 8)]).unwrap()).collect()
    }

    fn only_file(directory: &Path) -> PathBuf {
        let files: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(files.len(), 1, "{files:?}");
        files[0].clone()
    }

    #[test]
    fn records_come_in_order_through_many_windows() {
        const COUNT: u64 = 1_000_000;
        let (path, text) = directory("windows");
        let mut recording = Recording::begin(&text, Origin::Exec, Limits::USUAL).unwrap();
        (0..COUNT).for_each(|number| recording.append(record(number)));
        assert_eq!((recording.header().committed(), recording.header().lost()), (COUNT, 0));
        assert!(recording.header().arguments().next().is_some_and(|name| !name.is_empty()));
        let found = records_in(&only_file(&path), COUNT);
        assert!((0..COUNT).all(|number| found[number as usize] == record(number)));
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn every_image_of_a_process_has_a_stream() {
        let (path, text) = directory("images");
        let _first = Recording::begin(&text, Origin::Exec, Limits::USUAL).unwrap();
        let _second = Recording::begin(&text, Origin::Fork, Limits::USUAL).unwrap();
        let pid = std::process::id();
        assert!(path.join(format!("{pid}-0")).exists() && path.join(format!("{pid}-1")).exists());
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn a_collector_that_does_not_follow_ends_the_recording_and_leaves_nothing() {
        let (path, text) = directory("behind");
        let limits = Limits { behind: 10_000, patience: 20 };
        let mut recording = Recording::begin(&text, Origin::Exec, limits).unwrap();
        (0..100_000).for_each(|number| recording.append(record(number)));
        let header = recording.header();
        assert_eq!(header.failure(), Some(TIMED_OUT));
        assert!(header.committed() > limits.behind && header.lost() > 0);
        assert_eq!(header.committed() + header.lost(), 100_000);
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn a_collector_that_follows_is_waited_for() {
        const COUNT: u64 = 5_000_000;
        let (path, text) = directory("followed");
        let limits = Limits { behind: 10_000, patience: 10_000 };
        let mut recording = Recording::begin(&text, Origin::Exec, limits).unwrap();
        let header = recording.header.base().addr().get();
        let collector = std::thread::spawn(move || {
            // SAFETY: the recording keeps its header mapped until this thread has ended; what changes in it is atomic.
            let header = unsafe { &*core::ptr::with_exposed_provenance::<Header>(header) };
            while header.consumed() < COUNT {
                header.consume(header.committed());
                sleep_for_a_millisecond();
            }
        });
        let _ = recording.header.base().expose_provenance();
        (0..COUNT).for_each(|number| recording.append(record(number)));
        collector.join().unwrap();
        assert_eq!((recording.header().committed(), recording.header().failure()), (COUNT, None));
        let length = fs::metadata(only_file(&path)).unwrap().len();
        assert!(length < 4 * WINDOW, "places are used again: {length}");
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn a_collector_that_wants_no_more_is_left_alone() {
        let (path, text) = directory("closed");
        let mut recording = Recording::begin(&text, Origin::Exec, Limits::USUAL).unwrap();
        recording.append(record(0));
        recording.header().consume(CLOSED);
        (0..100_000).for_each(|number| recording.append(record(number)));
        assert_eq!(recording.header().failure(), None);
        assert!(recording.header().lost() > 0);
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn where_no_stream_can_be_made_none_begins() {
        let begun = Recording::begin(c"/nowhere/at/all", Origin::Exec, Limits::USUAL);
        assert_eq!(begun.err(), Some(FileError::NotFound));
    }
}
