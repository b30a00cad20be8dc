//! The header of a stream.

use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use heapwright_os::{
    FileName, Identity, LONGEST_NAME, Usage, executed_name, linked_program_name, now_nanoseconds, own_usage,
    pid_namespace, program_name, thread_usage, ticks,
};

use crate::command::{self, COMMAND};
use crate::record::Packed;

/// The first bytes of every stream.
pub const MAGIC: [u8; 8] = *b"hwstream";

/// The version of the layout of streams. Both sides come from one build; other versions are refused.
pub const VERSION: u32 = 13;

/// The maximum number of buffers of a stream.
pub const BUFFERS: u32 = 8192;

/// The room for a name and a zero byte.
const NAME: usize = LONGEST_NAME + 1;

/// A description of the process, and the progress of both sides. Each side writes to cache lines of its own.
#[repr(C, align(64))]
pub struct Header {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`VERSION`].
    pub version: u32,
    /// The length of the header in the file: where the buffers begin.
    pub buffers_at: u32,
    /// Where the table of [`Paths`](crate::Paths) begins; 0 when there is none.
    pub paths_at: u32,
    /// The process, as [`heapwright_os::Identity::word`] packs it.
    pub process: u64,
    /// Its [`heapwright_os::pid_namespace`], in which the numbers count; 0 when that is not known.
    pub namespace: u64,
    /// The number of its parent.
    pub parent: u32,
    /// Not 0 in the child of a `fork`, which has its parent's blocks.
    pub forked: u32,
    /// The time at which the recording began, in [`heapwright_os::ticks`].
    pub first_ticks: u64,
    /// The same time, in [`heapwright_os::now_nanoseconds`].
    pub first_nanoseconds: u64,
    /// What the process used at that time; all 0 when that is not known.
    pub first_usage: Usage,
    /// Number of bytes of `command` in use.
    command_length: u32,
    written: Written,
    read: Read,
    /// The program's name, and a zero byte.
    program: [u8; NAME],
    /// The same after all links have been followed.
    linked: [u8; NAME],
    /// The name of what the process was told to execute, and a zero byte.
    executed: [u8; NAME],
    /// The command line: arguments, each followed by a zero byte, truncated if it is longer.
    command: [u8; COMMAND],
    /// The buffers that were opened, the latest [`BUFFERS`] of them.
    begun: [AtomicU32; BUFFERS as usize],
}

/// The part that the process writes.
#[repr(C, align(64))]
struct Written {
    /// Number of buffers that were opened.
    begun: AtomicU64,
    /// The turn at which the recording ended.
    end: AtomicU64,
    /// How often the process has asked that all calls be read.
    asked: AtomicU64,
    lost: AtomicU64,
    stackless: AtomicU64,
    misses_operators: AtomicU32,
    failure: AtomicI32,
    peak: AtomicU64,
    arenas: AtomicU32,
    timed: [TimedCounts; KINDS],
    own_faults: AtomicU64,
    own_nanoseconds: AtomicU64,
    announced: AtomicU64,
    last: LastCounts,
}

/// Counts of timed calls.
#[repr(C)]
#[derive(Default)]
struct TimedCounts {
    calls: AtomicU64,
    ticks: AtomicU64,
}

/// What the process used when it ended.
#[repr(C)]
#[derive(Default)]
struct LastCounts {
    /// Set after the others.
    is_known: AtomicU32,
    are_huge_pages_off: AtomicU32,
    nanoseconds: AtomicU64,
    resident: AtomicU64,
    faults: AtomicU64,
    processor_nanoseconds: AtomicU64,
    files: AtomicU64,
}

/// Number of variants of [`Timed`].
const KINDS: usize = 4;

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timed {
    /// A sample of the calls for blocks that are not long: the call after each stop of a buffer.
    Sampled = 0,
    /// All calls for long blocks, which often take a thousand times as long.
    Long = 1,
    /// What the recorder adds to the calls of the sample.
    RecorderSampled = 2,
    /// The recorder's counts of the pages of long blocks.
    Pages = 3,
}

impl Timed {
    /// Returns the most that a duration counts, in nanoseconds: a thread that loses its processor in a call is not at
    /// work in it. Calls for long blocks have the system map, clear and unmap memory.
    #[must_use]
    pub const fn most_nanoseconds(self) -> u64 {
        match self {
            Timed::Sampled | Timed::RecorderSampled => 10_000,
            Timed::Long => 10_000_000,
            Timed::Pages => 100_000,
        }
    }
}

/// The end of a process that exits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Last {
    /// What it used.
    pub usage: Usage,
    /// The bytes of files that were resident, if known.
    pub files: Option<u64>,
    /// Whether it had turned transparent huge pages off for itself.
    pub are_huge_pages_off: bool,
}

/// The part that the collector writes.
#[repr(C, align(64))]
#[derive(Default)]
struct Read {
    /// Number of buffers that were read to their ends.
    freed: AtomicU64,
    /// Up to which [`Written::asked`] all calls were read that preceded it.
    answered: AtomicU64,
    closed: AtomicU32,
}

const _: () = assert!(size_of::<Header>() <= 36 << 10);

impl Header {
    /// A header of the calling process, which has not recorded any call.
    #[must_use]
    pub fn new(process: u64, parent: u32, forked: u32, buffers_at: u32) -> Header {
        Header {
            magic: MAGIC,
            version: VERSION,
            buffers_at,
            paths_at: 0,
            process,
            namespace: pid_namespace().unwrap_or(0),
            parent,
            forked,
            first_ticks: ticks(),
            first_nanoseconds: now_nanoseconds(),
            first_usage: own_usage().unwrap_or_default(),
            command_length: 0,
            written: Written {
                begun: AtomicU64::new(0),
                end: AtomicU64::new(u64::MAX),
                asked: AtomicU64::new(0),
                lost: AtomicU64::new(0),
                stackless: AtomicU64::new(0),
                misses_operators: AtomicU32::new(0),
                failure: AtomicI32::new(0),
                peak: AtomicU64::new(0),
                arenas: AtomicU32::new(0),
                timed: Default::default(),
                own_faults: AtomicU64::new(0),
                own_nanoseconds: AtomicU64::new(0),
                announced: AtomicU64::new(0),
                last: LastCounts::default(),
            },
            read: Read::default(),
            program: ended(&program_name()),
            linked: ended(&linked_program_name()),
            executed: ended(&executed_name()),
            command: [0; COMMAND],
            begun: [const { AtomicU32::new(0) }; BUFFERS as usize],
        }
    }

    /// Whether this is a header of this version.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.magic == MAGIC && self.version == VERSION && self.buffers_at as usize >= size_of::<Header>()
    }

    /// Records the command line with which the program began.
    pub(crate) fn note_command(&mut self) {
        self.command_length = command::copy_to(&mut self.command) as u32;
    }

    /// Returns the program's name, as [`heapwright_os::program_name`] determines it.
    #[must_use]
    pub fn program(&self) -> &[u8] {
        until_zero(&self.program)
    }

    /// Returns [`heapwright_os::linked_program_name`] of the process.
    #[must_use]
    pub fn linked_program(&self) -> &[u8] {
        until_zero(&self.linked)
    }

    /// Returns [`heapwright_os::executed_name`] of the process.
    #[must_use]
    pub fn executed(&self) -> &[u8] {
        until_zero(&self.executed)
    }

    /// Returns the arguments that the process was started with, as far as there was room for them.
    pub fn arguments(&self) -> impl Iterator<Item = &[u8]> {
        let command = self.command.get(..self.command_length as usize).unwrap_or_default();
        command.strip_suffix(b"\0").unwrap_or(command).split(|&byte| byte == 0)
    }

    /// Returns the same, if there was room for all of them.
    pub fn whole_command(&self) -> Option<impl Iterator<Item = &[u8]>> {
        ((1..COMMAND).contains(&(self.command_length as usize))).then(|| self.arguments())
    }

    /// Returns the number of buffers that were opened. Their states are visible after this load.
    #[must_use]
    pub fn begun(&self) -> u64 {
        self.written.begun.load(Ordering::Acquire)
    }

    /// Returns the buffer that was opened as the `number`-th. Valid until [`BUFFERS`] more are opened.
    #[must_use]
    pub fn buffer_begun(&self, number: u64) -> u32 {
        self.begun[(number % u64::from(BUFFERS)) as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn add_begun(&self, buffer: u32) {
        let number = self.written.begun.load(Ordering::Relaxed);
        self.begun[(number % u64::from(BUFFERS)) as usize].store(buffer, Ordering::Relaxed);
        self.written.begun.store(number + 1, Ordering::Release);
    }

    /// Returns the number of the turn at which the recording ended: calls of it and of later ones do not count.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.written.end.load(Ordering::Acquire)
    }

    /// Returns the system's error number of the failure that ended the recording, if one did.
    #[must_use]
    pub fn failure(&self) -> Option<i32> {
        Some(self.written.failure.load(Ordering::Acquire)).filter(|&failure| failure != 0)
    }

    pub(crate) fn end_at(&self, turn: u64, error: i32) {
        self.written.failure.store(error, Ordering::Release);
        self.written.end.store(turn, Ordering::Release);
    }

    /// Returns the number of lost calls: those after the recording had ended, which are in no buffer.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.written.lost.load(Ordering::Relaxed)
    }

    /// Counts a lost call, by the record that ends it: one after the recording had ended.
    pub fn lose_call(&self, record: Packed) {
        self.written.lost.fetch_add(u64::from(record.ends_call()), Ordering::Relaxed);
    }

    /// Returns the number of requests for which no stack could be recorded, because their threads had no buffer then.
    #[must_use]
    pub fn stackless(&self) -> u64 {
        self.written.stackless.load(Ordering::Relaxed)
    }

    pub(crate) fn lose_stack(&self) {
        self.written.stackless.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the process has operators `new` and `delete` whose blocks are not recorded.
    #[must_use]
    pub fn misses_operators(&self) -> bool {
        self.written.misses_operators.load(Ordering::Relaxed) != 0
    }

    /// Notes that it has such operators.
    pub fn note_missed_operators(&self) {
        self.written.misses_operators.store(1, Ordering::Relaxed);
    }

    /// Returns the peak of the bytes that the C library's malloc had from the system, as far as they were observed: the
    /// growth of the program break, and mappings of single blocks. `None` when malloc used other arenas, which are not
    /// observed, or when no bytes were observed.
    #[must_use]
    pub fn peak_system_bytes(&self) -> Option<u64> {
        let counts = self.written.arenas.load(Ordering::Relaxed) == 0;
        Some(self.written.peak.load(Ordering::Relaxed)).filter(|&peak| counts && peak != 0)
    }

    /// Records the bytes that the C library's malloc has from the system.
    pub fn record_system_bytes(&self, bytes: u64) {
        self.written.peak.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Notes that it has other arenas, whose bytes are not observed.
    pub fn note_other_arenas(&self) {
        self.written.arenas.store(1, Ordering::Relaxed);
    }

    /// Returns the number of page faults that the recorder has caused, as far as they were counted.
    #[must_use]
    pub fn own_faults(&self) -> u64 {
        self.written.own_faults.load(Ordering::Relaxed)
    }

    /// Returns the processor time in nanoseconds that the recorder has taken besides what is timed.
    #[must_use]
    pub fn own_nanoseconds(&self) -> u64 {
        self.written.own_nanoseconds.load(Ordering::Relaxed)
    }

    /// Does rare work of the recorder, whose page faults and processor time do not count as the program's.
    pub fn own<R>(&self, work: impl FnOnce() -> R) -> R {
        let before = thread_usage();
        let result = work();
        let after = thread_usage();
        self.written.own_faults.fetch_add(after.0.saturating_sub(before.0), Ordering::Relaxed);
        self.written.own_nanoseconds.fetch_add(after.1.saturating_sub(before.1), Ordering::Relaxed);
        result
    }

    /// Returns the identity by which the process announces itself in the stream's file, whatever its namespace: see
    /// [`heapwright_os::Announcement`]. `None` as long as it does not.
    #[must_use]
    pub fn announced(&self) -> Option<Identity> {
        let word = self.written.announced.load(Ordering::Acquire);
        (word != 0).then(|| Identity::from_word(word))
    }

    /// Notes that the process announces itself.
    pub(crate) fn announce(&self, identity: Identity) {
        self.written.announced.store(identity.word(), Ordering::Release);
    }

    /// Returns how often this was timed, and the sum of the durations in [`heapwright_os::ticks`].
    #[must_use]
    pub fn timed(&self, which: Timed) -> (u64, u64) {
        let counts = &self.written.timed[which as usize];
        (counts.calls.load(Ordering::Relaxed), counts.ticks.load(Ordering::Relaxed))
    }

    /// Adds a duration.
    pub fn add_timed(&self, which: Timed, ticks: u64) {
        let counts = &self.written.timed[which as usize];
        counts.calls.fetch_add(1, Ordering::Relaxed);
        counts.ticks.fetch_add(ticks, Ordering::Relaxed);
    }

    /// Returns what the process used when it ended; `None` when it has not ended, or not by exiting.
    #[must_use]
    pub fn last(&self) -> Option<Last> {
        let last = &self.written.last;
        if last.is_known.load(Ordering::Acquire) == 0 {
            return None;
        }
        let usage = Usage {
            nanoseconds: last.nanoseconds.load(Ordering::Relaxed),
            resident: last.resident.load(Ordering::Relaxed),
            faults: last.faults.load(Ordering::Relaxed),
            processor_nanoseconds: last.processor_nanoseconds.load(Ordering::Relaxed),
        };
        Some(Last {
            usage,
            files: Some(last.files.load(Ordering::Relaxed)).filter(|&files| files != 0),
            are_huge_pages_off: last.are_huge_pages_off.load(Ordering::Relaxed) != 0,
        })
    }

    /// Records what the process uses at its end.
    pub fn record_last(&self, end: &Last) {
        let last = &self.written.last;
        last.nanoseconds.store(end.usage.nanoseconds, Ordering::Relaxed);
        last.resident.store(end.usage.resident, Ordering::Relaxed);
        last.faults.store(end.usage.faults, Ordering::Relaxed);
        last.processor_nanoseconds.store(end.usage.processor_nanoseconds, Ordering::Relaxed);
        last.files.store(end.files.unwrap_or(0), Ordering::Relaxed);
        last.are_huge_pages_off.store(u32::from(end.are_huge_pages_off), Ordering::Relaxed);
        last.is_known.store(1, Ordering::Release);
    }

    /// Returns the number of buffers that were read to their ends.
    #[must_use]
    pub fn freed(&self) -> u64 {
        self.read.freed.load(Ordering::Relaxed)
    }

    /// Counts a buffer that was read to its end.
    pub fn add_freed(&self) {
        self.read.freed.fetch_add(1, Ordering::Relaxed);
    }

    /// Asks the collector to read all calls that precede this one; returns the number of the question.
    #[must_use]
    pub fn ask(&self) -> u64 {
        self.written.asked.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Returns the number of the latest question. What its process recorded before is visible after this load.
    #[must_use]
    pub fn asked(&self) -> u64 {
        self.written.asked.load(Ordering::Acquire)
    }

    /// Returns whether the collector has answered this question.
    #[must_use]
    pub fn is_answered(&self, question: u64) -> bool {
        self.read.answered.load(Ordering::Acquire) >= question
    }

    /// Notes that the collector has read all calls that preceded this question.
    pub fn answer(&self, question: u64) {
        self.read.answered.store(question, Ordering::Release);
    }

    /// Whether the collector has closed the stream.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.read.closed.load(Ordering::Relaxed) != 0
    }

    /// Closes the stream, on the collector's side: the process ends the recording.
    pub fn close(&self) {
        self.read.closed.store(1, Ordering::Relaxed);
    }
}

/// Returns a name with zeros behind it.
fn ended(name: &FileName) -> [u8; NAME] {
    let mut room = [0; NAME];
    room[..name.bytes().len()].copy_from_slice(name.bytes());
    room
}

fn until_zero(text: &[u8]) -> &[u8] {
    text.split(|&byte| byte == 0).next().unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "there is no /proc")]
    fn the_end_and_the_timed_calls_are_read_as_they_were_written() {
        let header = Header::new(1, 2, 0, 3);
        assert!(header.first_usage.resident > 0 && header.first_usage.nanoseconds >= header.first_nanoseconds);
        assert_eq!((header.last(), header.timed(Timed::Long)), (None, (0, 0)));
        let usage = Usage { nanoseconds: 1, resident: 2, faults: 3, processor_nanoseconds: 4 };
        for (files, are_huge_pages_off) in [(Some(5), false), (None, true)] {
            let last = Last { usage, files, are_huge_pages_off };
            header.record_last(&last);
            assert_eq!(header.last(), Some(last));
        }
        assert_eq!(header.own(|| header.own(|| std::vec![1_u8; 1 << 20])).len(), 1 << 20);
        assert!(header.own_faults() > 0 && header.own_nanoseconds() > 0);
        header.add_timed(Timed::Long, 7);
        header.add_timed(Timed::Sampled, 1);
        header.add_timed(Timed::Sampled, 2);
        assert_eq!([Timed::Sampled, Timed::Long].map(|which| header.timed(which)), [(2, 3), (1, 7)]);
    }
}
