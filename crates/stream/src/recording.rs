//! The process's side of its stream: which thread writes to which buffer.

use core::ffi::CStr;
use core::mem::size_of;
use core::ptr::NonNull;

use heapwright_os::{
    FileError, Identity, Mapping, SegmentFile, Window, parent_process_id, round_to_pages, sleep_for_a_millisecond,
    uncancelled,
};

use crate::buffer::{self, BUFFER, Buffer, LARGEST_CALL, Owner, State};
use crate::header::{BUFFERS, Header};
use crate::paths::Paths;
use crate::record::Packed;
use crate::stream_path::{PATH_LENGTH, StreamPath};

/// The maximum number of buffers by which the file grows at once; it doubles until then.
const STEP: u32 = 64;

/// Number of buffers that are checked for a free one before the file grows.
const LOOKS: u32 = 8;

/// The maximum number of threads that have a buffer of their own at the same time.
const OWNERS: u32 = 1024;

/// How a process started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// By `exec`, with an empty heap.
    Exec,
    /// By `fork`, with its parent's heap.
    Fork,
}

/// The limits of a process whose collector is behind.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The maximum number of buffers, at most [`BUFFERS`]. When all are in use, the process waits for the collector.
    pub buffers: u32,
    /// The time that it waits without any progress, in milliseconds.
    pub patience: u32,
    /// Whether the stream has a table of [`Paths`], for stacks.
    pub has_paths: bool,
}

impl Limits {
    /// The default: 512 MiB and ten seconds, without stacks.
    pub const USUAL: Limits = Limits { buffers: BUFFERS, patience: 10_000, has_paths: false };
}

/// An open stream. Its methods neither allocate nor change `errno`, and are called behind a lock; threads write to
/// their own buffers without it.
pub struct Recording {
    file: Window,
    /// The offset of the first buffer.
    buffers_at: usize,
    /// The number of buffers of the file, and its maximum.
    buffers: u32,
    limit: u32,
    /// The buffer at which the next search begins.
    hand: u32,
    /// Number of buffers that a thread owns.
    owned: u32,
    /// The buffer of the threads without one.
    shared: Option<NonNull<Buffer>>,
    path: StreamPath,
    patience: u32,
    ended: bool,
}

// SAFETY: a recording owns its window, into which its pointers lead, and is not tied to a thread.
unsafe impl Send for Recording {}

impl Recording {
    /// Creates a stream for the calling process in `directory`.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn begin(directory: &CStr, origin: Origin, limits: Limits) -> Result<Recording, FileError> {
        let process = Identity::mine();
        let forked = u32::from(origin == Origin::Fork);
        let in_pages = |bytes: usize| round_to_pages(bytes).unwrap_or(bytes);
        let paths_at = in_pages(size_of::<Header>());
        let buffers_at = if limits.has_paths { in_pages(paths_at + size_of::<Paths>()) } else { paths_at };
        let fill = |start: NonNull<u8>| {
            let start = start.cast::<Header>();
            // SAFETY: the file is at least as long as a header, mapped at a page boundary, and has no name yet, so that
            // no other process has it.
            unsafe {
                let parent = parent_process_id();
                let mut header = Header::new(process.word(), parent, forked, buffers_at as u32, buffer::next_ticket());
                header.paths_at = if limits.has_paths { paths_at as u32 } else { 0 };
                start.write(header);
                note_command(&mut *start.as_ptr());
            }
        };
        let mut limit = limits.buffers.clamp(2, BUFFERS);
        let mut attempt = 0;
        uncancelled(|| {
            loop {
                let path = StreamPath::new(directory, process.pid, attempt)?;
                let room = buffers_at + limit as usize * BUFFER;
                match Window::create(directory, path.as_c_string(), buffers_at, room, fill) {
                    Ok(file) => return Ok(Recording::over(file, buffers_at, limit, path, limits.patience)),
                    Err(FileError::Exists) => attempt += 1,
                    // A process with little address space gets fewer buffers.
                    Err(FileError::NoMemory) if limit > 2 => limit = (limit / 4).max(2),
                    Err(error) => return Err(error),
                }
            }
        })
    }

    fn over(file: Window, buffers_at: usize, limit: u32, path: StreamPath, patience: u32) -> Recording {
        let (buffers, hand, owned, shared, ended) = (0, 0, 0, None, false);
        Recording { file, buffers_at, buffers, limit, hand, owned, shared, path, patience, ended }
    }

    /// Returns the header, whose address does not change while the recording lives.
    #[must_use]
    pub fn header(&self) -> &Header {
        // SAFETY: the window begins with a header, and everything that changes in it is atomic.
        unsafe { self.file.base().cast().as_ref() }
    }

    /// Returns the table of paths, if there is one. Its address does not change while the recording lives.
    #[must_use]
    pub fn paths(&self) -> Option<&Paths> {
        let at = self.header().paths_at as usize;
        // SAFETY: the window has the table there, if it has one, and everything that changes in it is atomic.
        (at != 0 && at < self.buffers_at).then(|| unsafe { self.file.base().add(at).cast().as_ref() })
    }

    /// Whether the recording has ended: later calls are only counted.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Gives the calling thread, whose number is `thread`, a buffer of its own with stops, valid until the recording is
    /// dropped. `None` when there are too many threads or the recording has ended.
    pub fn attach(&mut self, thread: u32) -> Option<NonNull<Buffer>> {
        let own = match self.find(Buffer::is_abandoned) {
            Some(left) => {
                self.buffer(left).hand_over(thread);
                self.place(left)
            }
            None if self.owned >= OWNERS => return None,
            None => {
                let own = self.begin_buffer(thread, Owner::CallingThread)?;
                self.owned += 1;
                own
            }
        };
        // SAFETY: buffers stay mapped as long as the recording lives, and the calling thread is the owner now.
        let _has_room = unsafe { own.as_ref().pass_stop() };
        Some(own)
    }

    /// Gives the calling thread, whose last buffer is `full`, the next one; `None` when the recording has ended.
    pub fn renew(&mut self, full: &Buffer) -> Option<NonNull<Buffer>> {
        full.end();
        let next = self.begin_buffer(full.thread(), Owner::CallingThread);
        if let Some(next) = next {
            // SAFETY: the recording has just returned this buffer, which stays mapped as long as the recording lives.
            let next = unsafe { next.as_ref() };
            next.sampler().go_on_from(full.sampler());
            // SAFETY: the calling thread is the owner of the buffer.
            let _has_room = unsafe { next.pass_stop() };
        }
        self.owned -= u32::from(next.is_none());
        next
    }

    /// Adds a call of a thread without a buffer, with its time if there is one. Counts it as lost when the recording
    /// has ended.
    pub fn append(&mut self, thread: u32, record: Packed, ticks: Option<u64>) {
        let Some(buffer) = self.shared_buffer(thread, LARGEST_CALL) else { return self.header().lose_call() };
        // SAFETY: buffers stay mapped as long as the recording lives.
        let buffer = unsafe { buffer.as_ref() };
        if buffer.thread() != thread {
            buffer.set_thread(thread);
        }
        // SAFETY: the buffer is open and has no owner, and the caller, which borrows the recording mutably, holds the
        // lock.
        let _has_room = unsafe { buffer.append_at(record, ticks) };
    }

    /// Adds a mapping, unless its path is too long.
    pub fn add_mapping(&mut self, thread: u32, mapping: &Mapping<'_>) {
        if mapping.path.len() > PATH_LENGTH {
            return;
        }
        if let Some(buffer) = self.shared_buffer(thread, buffer::entry_of(mapping).slots()) {
            // SAFETY: buffers stay mapped as long as the recording lives.
            unsafe { buffer.as_ref() }.add_mapping(mapping);
        }
    }

    /// Returns the buffer of the threads without one, with room for `slots` slots and a thread's number.
    fn shared_buffer(&mut self, thread: u32, slots: u32) -> Option<NonNull<Buffer>> {
        // SAFETY: buffers stay mapped as long as the recording lives.
        match self.shared.map(|buffer| unsafe { buffer.as_ref() }) {
            Some(buffer) if buffer.has_room_for(slots) => return self.shared,
            Some(buffer) => buffer.end(),
            None => {}
        }
        self.shared = self.begin_buffer(thread, Owner::Shared);
        self.shared
    }

    /// Opens a free buffer; `None` when the recording has ended.
    fn begin_buffer(&mut self, thread: u32, owner: Owner) -> Option<NonNull<Buffer>> {
        if self.ended {
            return None;
        }
        match uncancelled(|| self.free_buffer()) {
            Ok(number) => {
                self.buffer(number).begin(thread, owner);
                self.header().add_begun(number);
                Some(self.place(number))
            }
            Err(reason) => {
                self.end(reason);
                None
            }
        }
    }

    /// Finds a free buffer. First choice is one that the collector has read, so that a fast collector needs few
    /// buffers, which stay in the caches; then a new one at the end of the file; then the next one that the collector
    /// will have read.
    fn free_buffer(&mut self) -> Result<u32, Reason> {
        if self.header().is_closed() {
            return Err(Reason::Closed);
        }
        if let Some(free) = self.find(|buffer| buffer.state() == State::Free) {
            return Ok(free);
        }
        if self.buffers < self.limit {
            return self.grow();
        }
        self.wait_for_collector()
    }

    /// Checks a few buffers, other ones each time.
    fn find(&mut self, is_it: impl Fn(&Buffer) -> bool) -> Option<u32> {
        for _ in 0..LOOKS.min(self.buffers) {
            let number = self.hand;
            self.hand = (number + 1) % self.buffers;
            if is_it(self.buffer(number)) {
                return Some(number);
            }
        }
        None
    }

    /// Lengthens the file; returns the first new buffer.
    fn grow(&mut self) -> Result<u32, Reason> {
        let first = self.buffers;
        let step = first.clamp(1, STEP).min(self.limit - first);
        let at = |number: u32| self.buffers_at + number as usize * BUFFER;
        let lengthen = || self.file.back(self.path.as_c_string(), at(first), at(first + step));
        self.header().own(lengthen).map_err(Reason::Refused)?;
        self.buffers += step;
        self.hand = (first + 1) % self.buffers;
        Ok(first)
    }

    fn wait_for_collector(&mut self) -> Result<u32, Reason> {
        let mut freed = self.header().freed();
        let mut waited = 0;
        loop {
            if let Some(free) = (0..self.buffers).find(|&number| self.buffer(number).state() == State::Free) {
                return Ok(free);
            }
            if self.header().is_closed() {
                return Err(Reason::Closed);
            }
            if waited == self.patience {
                return Err(Reason::CollectorGone);
            }
            sleep_for_a_millisecond();
            waited = if self.header().freed() == freed { waited + 1 } else { 0 };
            freed = self.header().freed();
        }
    }

    fn buffer(&self, number: u32) -> &Buffer {
        // SAFETY: the file has that many buffers, all backed, and what changes in them is atomic or has one writer.
        unsafe { self.place(number).as_ref() }
    }

    fn place(&self, number: u32) -> NonNull<Buffer> {
        debug_assert!(number < self.buffers);
        // SAFETY: the file has that many buffers, hence the address lies within the mapping.
        unsafe { self.file.base().add(self.buffers_at + number as usize * BUFFER).cast() }
    }

    #[cold]
    fn end(&mut self, reason: Reason) {
        self.ended = true;
        let ticket = buffer::next_ticket();
        match reason {
            Reason::Closed => {}
            Reason::Refused(error) => self.header().end_at(ticket, error.code()),
            Reason::CollectorGone => {
                self.header().end_at(ticket, TIMED_OUT);
                // The collector, which would remove the file, does not run any more.
                let _ = uncancelled(|| heapwright_os::unlink(self.path.as_c_string()));
            }
        }
    }
}

/// The system's number for "timed out".
const TIMED_OUT: i32 = 110;

/// Why a recording ends before its process does.
enum Reason {
    /// The collector has closed the stream.
    Closed,
    /// The collector does not read any more.
    CollectorGone,
    /// The system refused the next part of the file.
    Refused(FileError),
}

/// Records the command line, as far as there is room.
fn note_command(header: &mut Header) {
    let read = SegmentFile::open_read_only(c"/proc/self/cmdline").and_then(|file| file.read_at(0, &mut header.command));
    header.command_length = read.unwrap_or(0) as u32;
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::path::{Path, PathBuf};
    use std::sync::{Arc, Mutex};
    use std::vec::Vec;
    use std::{format, fs, thread};

    use super::*;
    use crate::buffer::Appended;
    use crate::record::{Call, Entry, Record};

    fn directory(name: &str) -> (PathBuf, CString) {
        let path = std::env::temp_dir().join(format!("heapwright-stream-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        let text = CString::new(path.to_str().unwrap()).unwrap();
        (path, text)
    }

    fn record(number: u64) -> Record {
        Record { call: Call::Malloc, log2_align: 4, size: number, address: number << 4 }
    }

    /// A thread that records as the library does.
    struct Thread {
        recording: Arc<Mutex<Recording>>,
        number: u32,
        own: Option<NonNull<Buffer>>,
    }

    impl Thread {
        fn of(recording: &Arc<Mutex<Recording>>, number: u32) -> Thread {
            Thread { recording: recording.clone(), number, own: recording.lock().unwrap().attach(number) }
        }

        fn append(&mut self, record: Record) {
            self.append_packed(record.packed());
        }

        fn append_packed(&mut self, record: Packed) {
            // SAFETY: the recording lives, and with it the buffer.
            let Some(own) = self.own.map(|own| unsafe { own.as_ref() }) else {
                return self.recording.lock().unwrap().append(self.number, record, None);
            };
            // SAFETY: the buffer is open, and this thread is its owner.
            match unsafe { own.append(record) } {
                Appended::Yes => {}
                // SAFETY: the buffer is open, this thread is its owner, and `append` has returned `Far`.
                Appended::Far { ticket } => unsafe { own.append_far(record, ticket) },
                Appended::Stop => {
                    // SAFETY: the buffer is open, and this thread is its owner.
                    if unsafe { !own.pass_stop() } {
                        self.own = self.recording.lock().unwrap().renew(own);
                    }
                    self.append_packed(record);
                }
            }
        }
    }

    fn begun(directory: &CStr, limits: Limits) -> Arc<Mutex<Recording>> {
        Arc::new(Mutex::new(Recording::begin(directory, Origin::Exec, limits).unwrap()))
    }

    /// All calls in a buffer by their tickets, with their threads.
    fn calls_in(buffer: &Buffer) -> Vec<(u64, u32, Record)> {
        let (mut base, mut thread, mut calls) = (0, 0, Vec::new());
        for number in 0..buffer.count() {
            match buffer.entry(number).unwrap() {
                Entry::Base(ticket) => base = ticket,
                Entry::Thread(number) => thread = number,
                Entry::Call { record, since_base } => calls.push((base + since_base, thread, record)),
                _ => {}
            }
        }
        calls
    }

    fn calls(recording: &Recording) -> Vec<(u64, u32, Record)> {
        let buffers = (0..recording.buffers).map(|number| recording.buffer(number));
        let mut all: Vec<_> = buffers.filter(|buffer| buffer.state() != State::Free).flat_map(calls_in).collect();
        all.sort_by_key(|call| call.0);
        all
    }

    fn only_file(directory: &Path) -> PathBuf {
        let files: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(files.len(), 1, "{files:?}");
        files[0].clone()
    }

    #[test]
    fn calls_come_in_order_through_many_buffers() {
        const COUNT: u64 = 100_000;
        let (path, text) = directory("buffers");
        let recording = begun(&text, Limits::USUAL);
        let mut thread = Thread::of(&recording, 5);
        (0..COUNT).for_each(|number| thread.append(record(number)));
        let recording = recording.lock().unwrap();
        assert_eq!((recording.header().lost(), recording.header().failure()), (0, None));
        assert!(recording.header().arguments().next().is_some_and(|name| !name.is_empty()));
        let found = calls(&recording);
        assert_eq!(found.len() as u64, COUNT);
        assert!(found.iter().zip(0..).all(|(&(_, thread, found), number)| thread == 5 && found == record(number)));
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn threads_at_once_each_have_their_tickets() {
        const COUNT: u64 = 50_000;
        let (path, text) = directory("threads");
        let recording = begun(&text, Limits::USUAL);
        thread::scope(|scope| {
            for number in 0..4 {
                let recording = &recording;
                scope.spawn(move || {
                    let mut thread = Thread::of(recording, number);
                    (0..COUNT).for_each(|number| thread.append(record(number)));
                });
            }
        });
        let found = calls(&recording.lock().unwrap());
        assert_eq!(found.len() as u64, 4 * COUNT);
        assert!(found.windows(2).all(|pair| pair[0].0 < pair[1].0), "a ticket was given twice");
        for number in 0..4 {
            let own = found.iter().filter(|call| call.1 == number).map(|call| call.2);
            assert!(own.eq((0..COUNT).map(record)));
        }
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn threads_one_after_another_need_no_more_room_than_a_few() {
        let (path, text) = directory("short");
        let recording = begun(&text, Limits::USUAL);
        for number in 0..500 {
            let recording = recording.clone();
            thread::spawn(move || Thread::of(&recording, number).append(record(7))).join().unwrap();
        }
        let recording = recording.lock().unwrap();
        assert!(recording.buffers <= 16, "{}", recording.buffers);
        let found = calls(&recording);
        assert!(found.iter().map(|call| call.1).eq(0..500));
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn where_there_are_too_many_threads_they_share_a_buffer() {
        let (path, text) = directory("many");
        let recording = begun(&text, Limits::USUAL);
        let mut threads: Vec<Thread> = (0..OWNERS + 50).map(|number| Thread::of(&recording, number)).collect();
        assert_eq!(threads.iter().filter(|thread| thread.own.is_none()).count(), 50);
        for _ in 0..200 {
            threads.iter_mut().rev().take(100).for_each(|thread| thread.append(record(u64::from(thread.number))));
        }
        let found = calls(&recording.lock().unwrap());
        assert_eq!(found.len(), 100 * 200);
        assert!(found.iter().all(|&(_, thread, found)| found == record(u64::from(thread))));
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn a_thread_that_was_idle_for_long_goes_on_in_its_buffer() {
        let (path, text) = directory("idle");
        let recording = begun(&text, Limits::USUAL);
        let (mut idle, mut busy) = (Thread::of(&recording, 1), Thread::of(&recording, 2));
        idle.append(record(1));
        (0..crate::record::TICKETS + 10).for_each(|number| busy.append(record(number)));
        idle.append(record(2));
        let found = calls(&recording.lock().unwrap());
        assert_eq!((found[0].1, found[0].2), (1, record(1)));
        let last = found.last().unwrap();
        assert_eq!((last.1, last.2), (1, record(2)));
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
        let recording = begun(&text, Limits { buffers: 3, patience: 20, has_paths: false });
        let mut thread = Thread::of(&recording, 0);
        (0..100_000).for_each(|number| thread.append(record(number)));
        let recording = recording.lock().unwrap();
        let header = recording.header();
        assert_eq!(header.failure(), Some(TIMED_OUT));
        let found = calls(&recording);
        assert!(recording.has_ended() && found.iter().all(|call| call.0 < header.end()));
        assert!(found.len() > 10_000 && header.lost() > 0);
        assert_eq!(found.len() as u64 + header.lost(), 100_000);
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn a_collector_that_follows_is_waited_for() {
        const COUNT: u64 = 2_000_000;
        let (path, text) = directory("followed");
        let recording = begun(&text, Limits { buffers: 20, patience: 10_000, has_paths: false });
        let mut thread = Thread::of(&recording, 0);
        let address = recording.lock().unwrap().file.base().expose_provenance().get();
        let buffers_at = recording.lock().unwrap().buffers_at;
        let collector = thread::spawn(move || {
            // SAFETY: the recording lives until this thread has ended; what changes is atomic.
            let header = unsafe { &*core::ptr::with_exposed_provenance::<Header>(address) };
            let (mut read, mut seen) = (Vec::new(), 0);
            while read.len() < COUNT as usize {
                while seen < header.begun() {
                    let at = address + buffers_at + header.buffer_begun(seen) as usize * BUFFER;
                    // SAFETY: the recording lives until this thread has ended; what changes is atomic, or written
                    // before the count that is loaded first.
                    let buffer = unsafe { &*core::ptr::with_exposed_provenance::<Buffer>(at) };
                    if buffer.state() != State::Full && read.len() + (buffer.count() as usize) < COUNT as usize {
                        break;
                    }
                    read.extend(calls_in(buffer));
                    buffer.free();
                    header.add_freed();
                    seen += 1;
                }
                sleep_for_a_millisecond();
            }
            read
        });
        (0..COUNT).for_each(|number| thread.append(record(number)));
        let read = collector.join().unwrap();
        assert!(read.iter().zip(0..).all(|(call, number)| call.2 == record(number)));
        assert_eq!(recording.lock().unwrap().header().failure(), None);
        let length = fs::metadata(only_file(&path)).unwrap().len();
        assert!(length <= 20 * BUFFER as u64 + (1 << 20), "buffers are used again: {length}");
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn a_collector_that_wants_no_more_is_left_alone() {
        let (path, text) = directory("closed");
        let recording = begun(&text, Limits::USUAL);
        let mut thread = Thread::of(&recording, 0);
        thread.append(record(0));
        recording.lock().unwrap().header().close();
        (0..100_000).for_each(|number| thread.append(record(number)));
        let recording = recording.lock().unwrap();
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
