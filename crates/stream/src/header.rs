//! The first page of a stream.

use core::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// The first bytes of every stream.
pub const MAGIC: [u8; 8] = *b"hwstream";

/// The version of the layout of streams. The two sides come from one build; others are refused.
pub const VERSION: u32 = 1;

/// What [`Header::consumed`] holds when the collector wants no more.
pub const CLOSED: u64 = u64::MAX;

/// How much of a command line is kept, in bytes.
const COMMAND: usize = 3072;

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
#[derive(Default)]
struct Written {
    committed: AtomicU64,
    lost: AtomicU64,
    failure: AtomicI32,
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
            written: Written::default(),
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
