//! The beginning of a stream.

use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

/// The first bytes of every stream.
pub const MAGIC: [u8; 8] = *b"hwstream";

/// The version of the layout of streams. The two sides come from one build; others are refused.
pub const VERSION: u32 = 4;

/// How many buffers a stream has at most.
pub const BUFFERS: u32 = 8192;

/// How much of a command line is kept, in bytes.
const COMMAND: usize = 2048;

/// What the process tells of itself, and how far both sides have come. Each side writes to cache lines of its own.
#[repr(C, align(64))]
pub struct Header {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`VERSION`].
    pub version: u32,
    /// The length of the header in the file: where the buffers begin.
    pub buffers_at: u32,
    /// The process, as [`heapwright_os::Identity::word`] has it.
    pub process: u64,
    /// The number of its parent.
    pub parent: u32,
    /// Not 0 in a process that began as the likeness of its parent (by `fork`), whose blocks it has.
    pub forked: u32,
    /// The ticket of the first call.
    pub first_ticket: u64,
    /// When the recording began, as [`heapwright_os::ticks`] has it.
    pub first_ticks: u64,
    /// How many bytes of `command` are used.
    pub command_length: u32,
    written: Written,
    read: Read,
    /// The command line: arguments, each followed by a zero byte, cut off where there is no more room.
    pub command: [u8; COMMAND],
    /// The buffers that were begun, the latest [`BUFFERS`] of them.
    begun: [AtomicU32; BUFFERS as usize],
}

/// What the process writes as it goes.
#[repr(C, align(64))]
struct Written {
    /// How many buffers were begun.
    begun: AtomicU64,
    /// The ticket from which on nothing counts.
    end: AtomicU64,
    lost: AtomicU64,
    failure: AtomicI32,
    peak: AtomicU64,
    arenas: AtomicU32,
}

/// What the collector writes.
#[repr(C, align(64))]
#[derive(Default)]
struct Read {
    /// How many buffers have been read to their ends.
    freed: AtomicU64,
    closed: AtomicU32,
}

const _: () = assert!(size_of::<Header>() <= 36 << 10);

impl Header {
    /// A header of a process that has recorded nothing.
    #[must_use]
    pub fn new(process: u64, parent: u32, forked: u32, buffers_at: u32, first_ticket: u64, first_ticks: u64) -> Header {
        Header {
            magic: MAGIC,
            version: VERSION,
            buffers_at,
            process,
            parent,
            forked,
            first_ticket,
            first_ticks,
            command_length: 0,
            written: Written {
                begun: AtomicU64::new(0),
                end: AtomicU64::new(u64::MAX),
                lost: AtomicU64::new(0),
                failure: AtomicI32::new(0),
                peak: AtomicU64::new(0),
                arenas: AtomicU32::new(0),
            },
            read: Read::default(),
            command: [0; COMMAND],
            begun: [const { AtomicU32::new(0) }; BUFFERS as usize],
        }
    }

    /// Whether this is a header that this code understands.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.magic == MAGIC && self.version == VERSION && self.buffers_at as usize >= size_of::<Header>()
    }

    /// The arguments that the process was started with, as far as they are kept.
    pub fn arguments(&self) -> impl Iterator<Item = &[u8]> {
        let command = self.command.get(..self.command_length as usize).unwrap_or_default();
        command.strip_suffix(b"\0").unwrap_or(command).split(|&byte| byte == 0)
    }

    /// How many buffers were begun. Whoever sees the number sees them open.
    #[must_use]
    pub fn begun(&self) -> u64 {
        self.written.begun.load(Ordering::Acquire)
    }

    /// Which buffer was begun as the `number`-th; valid while there have not been [`BUFFERS`] more.
    #[must_use]
    pub fn buffer_begun(&self, number: u64) -> u32 {
        self.begun[(number % u64::from(BUFFERS)) as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn add_begun(&self, buffer: u32) {
        let number = self.written.begun.load(Ordering::Relaxed);
        self.begun[(number % u64::from(BUFFERS)) as usize].store(buffer, Ordering::Relaxed);
        self.written.begun.store(number + 1, Ordering::Release);
    }

    /// The ticket from which on nothing counts, because the recording has ended.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.written.end.load(Ordering::Acquire)
    }

    /// The system's error number for what ended the recording, if anything has.
    #[must_use]
    pub fn failure(&self) -> Option<i32> {
        Some(self.written.failure.load(Ordering::Acquire)).filter(|&failure| failure != 0)
    }

    pub(crate) fn end_at(&self, ticket: u64, error: i32) {
        self.written.failure.store(error, Ordering::Release);
        self.written.end.store(ticket, Ordering::Release);
    }

    /// How many calls came after the recording had ended and are in no buffer.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.written.lost.load(Ordering::Relaxed)
    }

    /// Counts a call that came after the recording had ended.
    pub fn lose_call(&self) {
        self.written.lost.fetch_add(1, Ordering::Relaxed);
    }

    /// The most bytes that the C library's malloc had from the system, as far as was seen: the growth of the program break
    /// and mappings of single blocks. `None` when there were other arenas, whose bytes are not counted, or nothing was seen.
    #[must_use]
    pub fn peak_system_bytes(&self) -> Option<u64> {
        let counts = self.written.arenas.load(Ordering::Relaxed) == 0;
        Some(self.written.peak.load(Ordering::Relaxed)).filter(|&peak| counts && peak != 0)
    }

    /// Notes that the C library's malloc has so many bytes from the system, but for other arenas', if there are any.
    pub fn see_system_bytes(&self, bytes: u64, has_others: bool) {
        self.written.peak.fetch_max(bytes, Ordering::Relaxed);
        self.written.arenas.fetch_or(u32::from(has_others), Ordering::Relaxed);
    }

    /// How many buffers have been read to their ends.
    #[must_use]
    pub fn freed(&self) -> u64 {
        self.read.freed.load(Ordering::Relaxed)
    }

    /// Counts a buffer that has been read to its end.
    pub fn add_freed(&self) {
        self.read.freed.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the collector wants no more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.read.closed.load(Ordering::Relaxed) != 0
    }

    /// Says that the collector wants no more.
    pub fn close(&self) {
        self.read.closed.store(1, Ordering::Relaxed);
    }
}
