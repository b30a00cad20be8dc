//! The first page of a stream.

use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

/// The first bytes of every stream.
pub const MAGIC: [u8; 8] = *b"hwstream";

/// The version of the layout of streams. The two sides come from one build; others are refused.
pub const VERSION: u32 = 1;

/// What [`Header::consumed`] holds when the collector wants no more.
pub const CLOSED: u64 = u64::MAX;

/// The length of a window of the stream in bytes: each has its place in the file, and takes that of one that has been read.
pub const WINDOW: u64 = 4 << 20;

/// How many windows can be under way.
pub(crate) const PLACES: u64 = 256;

/// How much of a command line is kept, in bytes.
const COMMAND: usize = 2048;

/// What the process tells of itself, and how far both sides have come. Each side writes to cache lines of its own.
#[repr(C, align(64))]
pub struct Header {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`VERSION`].
    pub version: u32,
    /// The length of this page: where the records begin.
    pub records_at: u32,
    /// The process, as [`heapwright_os::Identity::word`] has it.
    pub process: u64,
    /// The number of its parent.
    pub parent: u32,
    /// Not 0 in a process that began as the likeness of its parent (by `fork`), whose blocks it has.
    pub forked: u32,
    /// How many bytes of `command` are used.
    pub command_length: u32,
    written: Written,
    read: Read,
    /// The command line: arguments, each followed by a zero byte, cut off where there is no more room.
    pub command: [u8; COMMAND],
}

/// What the process writes as it goes.
#[repr(C, align(64))]
struct Written {
    committed: AtomicU64,
    lost: AtomicU64,
    failure: AtomicI32,
    /// Where windows are in the file, by their number modulo the length of this table.
    places: [AtomicU32; PLACES as usize],
}

/// What the collector writes.
#[repr(C, align(64))]
#[derive(Default)]
struct Read {
    consumed: AtomicU64,
}

const _: () = assert!(size_of::<Header>() <= 4096);

impl Header {
    /// A header of a process that has recorded nothing.
    #[must_use]
    pub fn new(process: u64, parent: u32, forked: u32, records_at: u32) -> Header {
        Header {
            magic: MAGIC,
            version: VERSION,
            records_at,
            process,
            parent,
            forked,
            command_length: 0,
            written: Written {
                committed: AtomicU64::new(0),
                lost: AtomicU64::new(0),
                failure: AtomicI32::new(0),
                places: [const { AtomicU32::new(0) }; PLACES as usize],
            },
            read: Read::default(),
            command: [0; COMMAND],
        }
    }

    /// Whether this is a header that this code understands.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.magic == MAGIC && self.version == VERSION && self.records_at as usize >= size_of::<Header>()
    }

    /// The arguments that the process was started with, as far as they are kept.
    pub fn arguments(&self) -> impl Iterator<Item = &[u8]> {
        let command = self.command.get(..self.command_length as usize).unwrap_or_default();
        command.strip_suffix(b"\0").unwrap_or(command).split(|&byte| byte == 0)
    }

    /// How many records are complete. Whoever sees the number sees the records.
    #[inline(always)]
    #[must_use]
    pub fn committed(&self) -> u64 {
        self.written.committed.load(Ordering::Acquire)
    }

    #[inline(always)]
    pub(crate) fn commit(&self, records: u64) {
        self.written.committed.store(records, Ordering::Release);
    }

    /// Where in the file the record at byte `at` of the stream is. Valid for what is committed and not consumed.
    #[must_use]
    pub fn place_of(&self, at: u64) -> u64 {
        u64::from(self.records_at) + u64::from(self.place(at / WINDOW)) * WINDOW + at % WINDOW
    }

    pub(crate) fn place(&self, window: u64) -> u32 {
        self.written.places[(window % PLACES) as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn set_place(&self, window: u64, place: u32) {
        self.written.places[(window % PLACES) as usize].store(place, Ordering::Relaxed);
    }

    /// The system's error number for what ended the recording, if anything has.
    #[must_use]
    pub fn failure(&self) -> Option<i32> {
        Some(self.written.failure.load(Ordering::Acquire)).filter(|&failure| failure != 0)
    }

    pub(crate) fn fail(&self, error: i32) {
        self.written.failure.store(error, Ordering::Release);
    }

    /// How many calls came after the recording had ended.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.written.lost.load(Ordering::Relaxed)
    }

    pub(crate) fn lose_one(&self) {
        self.written.lost.fetch_add(1, Ordering::Relaxed);
    }

    /// How many records the collector is done with, or [`CLOSED`].
    #[must_use]
    pub fn consumed(&self) -> u64 {
        self.read.consumed.load(Ordering::Relaxed)
    }

    /// Says that the collector is done with so many records, or wants no more ([`CLOSED`]).
    pub fn consume(&self, records: u64) {
        self.read.consumed.store(records, Ordering::Relaxed);
    }
}
