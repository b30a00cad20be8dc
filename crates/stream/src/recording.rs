//! The process's side of its stream: which thread writes to which buffer.

use core::ffi::CStr;
use core::mem::size_of;
use core::ops::Range;
use core::ptr::NonNull;

use heapwright_os::{
    Announcement, FileError, Identity, Mapping, Numbers, SegmentFile, Window, parent_process_id, pid_namespace,
    round_to_pages, sleep_for_a_millisecond, thread_id, uncancelled,
};

use crate::buffer::{self, BUFFER, Buffer, LARGEST_CALL, NO_OWNER, State};
use crate::command;
use crate::header::{BUFFERS, Header};
use crate::owners::Owners;
use crate::paths::Paths;
use crate::record::Packed;
use crate::stream_path::{PATH_LENGTH, StreamPath};
use crate::turns;

/// The maximum number of buffers by which the file grows at once; it doubles until then.
const STEP: u32 = 16;

/// Number of buffers that are checked for a free one before the file grows, and of owners whether they have ended.
const LOOKS: u32 = 8;

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
    /// The buffers that a thread owns.
    owners: Owners,
    /// The buffer of the threads without one.
    shared: Option<NonNull<Buffer>>,
    path: StreamPath,
    /// Tells a collector in another namespace whether the process lives.
    announcement: Announcement,
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
        if origin == Origin::Exec {
            command::keep();
        }
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
                let mut header = Header::new(process.word(), parent, forked, buffers_at as u32);
                header.paths_at = if limits.has_paths { paths_at as u32 } else { 0 };
                start.write(header);
                (*start.as_ptr()).note_command();
            }
        };
        // Start times differ by hundredths of a second only, and the processes that start a namespace have one number.
        let unique = process.birth ^ pid_namespace().unwrap_or(0) as u32;
        let owners = Owners::new()?;
        let mut limit = limits.buffers.clamp(2, BUFFERS);
        let mut attempt = 0;
        uncancelled(|| {
            loop {
                let path = StreamPath::new(directory, process.pid, unique, attempt)?;
                let room = buffers_at + limit as usize * BUFFER;
                match Window::create(directory, path.as_c_string(), buffers_at, room, fill) {
                    Ok(file) => {
                        let recording = Recording::over(file, owners, buffers_at, limit, path, limits.patience);
                        recording.announce(process);
                        return Ok(recording);
                    }
                    Err(FileError::Exists) => attempt += 1,
                    // A process with little address space gets fewer buffers.
                    Err(FileError::NoMemory) if limit > 2 => limit = (limit / 4).max(2),
                    Err(error) => return Err(error),
                }
            }
        })
    }

    fn over(file: Window, owners: Owners, buffers_at: usize, limit: u32, path: StreamPath, patience: u32) -> Recording {
        let (buffers, hand, shared, ended) = (0, 0, None, false);
        let announcement = Announcement::default();
        Recording { file, buffers_at, buffers, limit, hand, owners, shared, path, announcement, patience, ended }
    }

    /// Announces the process in the file. Where that is impossible, a collector in another namespace reads the stream
    /// until the program ends that it has started.
    fn announce(&self, process: Identity) {
        let path = self.path.as_c_string();
        let Ok(file) = SegmentFile::open_read_only(path) else { return };
        if let Some(announced) = self.announcement.make(&file, path, process.announced(Numbers::Known)) {
            self.header().announce(announced);
        }
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
        let own = match self.find_abandoned() {
            Some(left) => {
                self.buffer(left).hand_over(thread);
                self.place(left)
            }
            None if self.owners.is_full() => return None,
            None => {
                if self.owners.count() > 0 || self.shared.is_some() {
                    turns::note_several();
                }
                let own = self.begin_buffer(thread, thread_id())?;
                self.owners.add(own);
                self.place(own)
            }
        };
        // SAFETY: buffers stay mapped as long as the recording lives, and the calling thread is the owner now.
        let _has_room = unsafe { own.as_ref().pass_stop() };
        Some(own)
    }

    /// Gives the calling thread, whose last buffer is `full`, the next one; `None` when the recording has ended.
    pub fn renew(&mut self, full: &Buffer) -> Option<NonNull<Buffer>> {
        // The same as before: the child of a `vfork` writes to the buffer of the thread that has made it.
        let owner = full.owner();
        full.end();
        let number = self.number_of(full);
        let Some(next) = self.begin_buffer(full.thread(), owner) else {
            self.owners.remove(number);
            return None;
        };
        self.owners.replace(number, next);
        let buffer = self.buffer(next);
        buffer.sampler().go_on_from(full.sampler());
        // SAFETY: the calling thread is the owner of the buffer, or a child in its place.
        let _has_room = unsafe { buffer.pass_stop() };
        Some(self.place(next))
    }

    /// Adds a call of a thread without a buffer, with its time if there is one. Counts it as lost when the recording
    /// has ended.
    pub fn append(&mut self, thread: u32, record: Packed, ticks: Option<u64>) {
        // There may still be room in a shared buffer, but what is in it then does not count.
        let shared = if self.ended { None } else { self.shared_buffer(thread, LARGEST_CALL) };
        let Some(buffer) = shared else { return self.header().lose_call(record) };
        if record.is_request() {
            self.header().lose_stack();
        }
        // SAFETY: buffers stay mapped as long as the recording lives.
        let buffer = unsafe { buffer.as_ref() };
        if buffer.thread() != thread {
            buffer.set_thread(thread);
        }
        // SAFETY: the buffer is open and has no owner, and the caller, which borrows the recording mutably, holds the
        // lock.
        let _has_room = unsafe { buffer.append_at(record, ticks) };
    }

    /// Adds that code is not mapped any more, for a thread without a buffer.
    pub fn add_unmapped(&mut self, thread: u32, code: &Range<usize>) {
        if let Some(buffer) = self.shared_buffer(thread, LARGEST_CALL) {
            // SAFETY: buffers stay mapped as long as the recording lives. This one is open and has no owner, and the
            // caller, which borrows the recording mutably, holds the lock.
            let _has_room = unsafe { buffer.as_ref().add_unmapped(code) };
        }
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
            None => turns::note_several(),
        }
        self.shared = self.begin_buffer(thread, NO_OWNER).map(|number| self.place(number));
        self.shared
    }

    /// Opens a free buffer; `None` when the recording has ended.
    fn begin_buffer(&mut self, thread: u32, owner: u32) -> Option<u32> {
        if self.ended {
            return None;
        }
        match uncancelled(|| self.free_buffer()) {
            Ok(number) => {
                self.buffer(number).begin(thread, owner);
                self.header().add_begun(number);
                Some(number)
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

    /// Returns a buffer with room whose thread has ended. Ends those without room that it comes across: no thread will.
    fn find_abandoned(&mut self) -> Option<u32> {
        for _ in 0..self.owners.count().min(LOOKS as usize) {
            let number = self.owners.next()?;
            let buffer = self.buffer(number);
            match buffer.is_abandoned() {
                true if buffer.has_room() => return Some(number),
                true => {
                    buffer.end();
                    self.owners.remove(number);
                }
                false => {}
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

    fn number_of(&self, buffer: &Buffer) -> u32 {
        let first = self.file.base().as_ptr().addr() + self.buffers_at;
        (core::ptr::from_ref(buffer).addr().wrapping_sub(first) / BUFFER) as u32
    }

    fn place(&self, number: u32) -> NonNull<Buffer> {
        debug_assert!(number < self.buffers);
        // SAFETY: the file has that many buffers, hence the address lies within the mapping.
        unsafe { self.file.base().add(self.buffers_at + number as usize * BUFFER).cast() }
    }

    #[cold]
    fn end(&mut self, reason: Reason) {
        self.ended = true;
        let turn = turns::next();
        match reason {
            Reason::Closed => {}
            Reason::Refused(error) => self.header().end_at(turn, error.code()),
            Reason::CollectorGone => {
                self.header().end_at(turn, TIMED_OUT);
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

#[cfg(test)]
mod tests;
