//! A trace made ready to be performed: operations of one length that name places in a table.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result};
use foldhash::fast::FixedState;
use heapwright_trace::{About, Event, Kind, Reader};

use super::op::{Op, code};
use super::slots::Slots;

/// The text in which the recorder notes how much memory glibc had from the system at most, in bytes.
const RECORDED_PEAK: &str = "glibc peak system bytes";

/// A trace as operations, in a file that has no name. Every event is one operation, so that both have one number.
pub struct Script {
    file: File,
    counts: Counts,
    spans: Vec<Span>,
    slots: usize,
    recorded_peak: Option<u64>,
}

/// The events in which a thread was seen, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    first: u64,
    last: u64,
}

impl Span {
    /// Of a thread that was not seen.
    const NEVER: Span = Span { first: u64::MAX, last: 0 };
}

/// What is counted on the way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    events: u64,
    operations: u64,
    blocks: u64,
    left_out: u64,
    requested: u64,
    peak_requested: u64,
    pub(super) peak_event: u64,
    pub(super) longest: u64,
}

impl Script {
    /// Reads all of a trace. Memory: in proportion to the blocks that live at one time. Disk: 16 bytes per event, among
    /// the temporary files, for as long as the script lives.
    ///
    /// # Errors
    /// When the trace cannot be read or is damaged, or the temporary file cannot be written.
    pub fn compile(trace: &Path) -> Result<Script> {
        let file = File::open(trace).with_context(|| format!("{} cannot be opened", trace.display()))?;
        let read = || Reader::new(BufReader::new(file)).map_err(anyhow::Error::from).and_then(Script::from_reader);
        read().with_context(|| trace.display().to_string())
    }

    /// As [`Script::compile`], of a trace that is being read.
    ///
    /// # Errors
    /// As there.
    pub fn from_reader(mut trace: Reader<impl Read>) -> Result<Script> {
        let file = tempfile::tempfile().context("cannot make a temporary file for the operations")?;
        let mut compiler = Compiler::new();
        let mut out = BufWriter::with_capacity(1 << 18, file);
        while let Some(event) = trace.next_event()? {
            let op = compiler.compile(event)?;
            out.write_all(&op.to_bytes())
                .context("cannot write the operations to a temporary file: is its disk full?")?;
        }
        let Compiler { counts, slots, spans, .. } = compiler;
        for span in &spans {
            out.write_all(&span.last.to_ne_bytes())
                .context("cannot write the operations to a temporary file: is its disk full?")?;
        }
        let file = out.into_inner().context("cannot write the operations to a temporary file: is its disk full?")?;
        Ok(Script { file, counts, spans, slots: slots.len(), recorded_peak: recorded_peak(trace.about()) })
    }

    /// Events of the trace.
    pub fn events(&self) -> u64 {
        self.counts.events
    }

    /// Events that are calls of the allocator.
    pub fn operations(&self) -> u64 {
        self.counts.operations
    }

    /// Blocks that appear, by allocation or by resizing.
    pub fn blocks(&self) -> u64 {
        self.counts.blocks
    }

    /// Events that name a block which does not live: they are left out.
    pub fn left_out(&self) -> u64 {
        self.counts.left_out
    }

    /// Threads in which something happens.
    pub fn threads(&self) -> u64 {
        self.spans.iter().filter(|span| span.first <= span.last).count() as u64
    }

    /// The most bytes, as asked, that lived at one time.
    pub fn peak_requested(&self) -> u64 {
        self.counts.peak_requested
    }

    /// The most bytes that glibc had from the system in the run that was recorded, where the trace tells.
    pub fn recorded_peak(&self) -> Option<u64> {
        self.recorded_peak
    }

    /// The number in the trace of the block that was in a place when an event happened.
    ///
    /// # Errors
    /// When the temporary file cannot be read.
    pub(super) fn block_in(&self, slot: usize, event: u64) -> Result<u64> {
        let mut file = BufReader::new(FromStart { file: &self.file, at: 0 });
        let (mut bytes, mut appeared, mut found) = ([0; 16], 0, 0);
        for _ in 0..=event.min(self.counts.events.saturating_sub(1)) {
            file.read_exact(&mut bytes).context("cannot read the operations again")?;
            let op = Op::from_bytes(bytes);
            if matches!(op.code(), code::MALLOC..=code::RESIZE | code::LOST) {
                if op.is_call() && op.slot() == slot {
                    found = appeared;
                }
                appeared += 1;
            }
        }
        Ok(found)
    }

    /// How many threads there are numbers for; the program's first has number 0, whether it is seen or not.
    pub(super) fn thread_numbers(&self) -> u64 {
        self.spans.len() as u64
    }

    /// The most threads that are seen in one window of so many events; the program's first is always there.
    pub(super) fn threads_at_once(&self, window: u64) -> usize {
        let begins = self.spans.iter().skip(1).map(|span| (span.first / window, 1));
        let ends = self.spans.iter().skip(1).map(|span| (span.last / window + 1, -1));
        let mut changes: Vec<(u64, i64)> = begins.chain(ends).collect();
        // Those that end before a window are gone when it begins.
        changes.sort_unstable();
        let there = changes.iter().scan(0, |there, (_, change)| {
            *there += change;
            Some(*there)
        });
        1 + there.max().unwrap_or(0) as usize
    }

    /// The most blocks that live at one time.
    pub(super) fn slots(&self) -> usize {
        self.slots
    }

    pub(super) fn counts(&self) -> &Counts {
        &self.counts
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }
}

fn recorded_peak(about: &About) -> Option<u64> {
    about.get(RECORDED_PEAK)?.trim().parse().ok()
}

/// A trace on its way to operations.
struct Compiler {
    counts: Counts,
    slots: Slots,
    spans: Vec<Span>,
    /// The threads by their numbers in the trace, numbered anew in the order in which they are first seen.
    numbers: HashMap<u64, u32, FixedState>,
    thread: usize,
}

impl Compiler {
    /// A trace begins in thread 0, the program's first.
    fn new() -> Compiler {
        let (counts, slots) = (Counts::default(), Slots::default());
        Compiler { counts, slots, spans: vec![Span::NEVER], numbers: HashMap::from_iter([(0, 0)]), thread: 0 }
    }

    fn compile(&mut self, event: Event) -> Result<Op> {
        let op = match event {
            Event::Thread { thread } => self.go_to(thread),
            Event::Allocate { block, kind, size, align } => self.allocate(block, kind, size, align)?,
            Event::Resize { block, becomes, size } => self.resize(block, becomes, size),
            Event::Free { block } => self.free(block),
            Event::Failed { .. } => Op::default(),
        };
        self.see_thread();
        self.counts.events += 1;
        Ok(op)
    }

    fn allocate(&mut self, block: u64, kind: Kind, size: u64, align: u64) -> Result<Op> {
        let slot = self.slots.insert(self.thread, block, size)?;
        self.appears(size);
        Ok(match kind {
            Kind::Malloc => Op::malloc(slot, size),
            Kind::Calloc => Op::calloc(slot, size),
            Kind::Aligned => Op::aligned(slot, size, align.trailing_zeros()),
        })
    }

    fn resize(&mut self, block: u64, becomes: u64, size: u64) -> Op {
        let Some(old) = self.slots.rename(block, becomes, size) else { return self.leave_out(Op::lost()) };
        self.counts.requested = self.counts.requested.saturating_sub(old.size);
        self.appears(size);
        Op::resize(old.slot, size, old.size)
    }

    fn free(&mut self, block: u64) -> Op {
        let Some(old) = self.slots.remove(self.thread, block) else { return self.leave_out(Op::default()) };
        self.counts.requested = self.counts.requested.saturating_sub(old.size);
        self.counts.operations += 1;
        Op::free(old.slot, old.size)
    }

    fn leave_out(&mut self, op: Op) -> Op {
        self.counts.left_out += 1;
        op
    }

    fn appears(&mut self, size: u64) {
        let counts = &mut self.counts;
        counts.operations += 1;
        counts.blocks += 1;
        counts.requested = counts.requested.saturating_add(size);
        counts.longest = counts.longest.max(size);
        if counts.requested > counts.peak_requested {
            (counts.peak_requested, counts.peak_event) = (counts.requested, counts.events);
        }
    }

    /// The event under way is the thread's latest, and perhaps its first.
    fn see_thread(&mut self) {
        let now = self.counts.events;
        let span = &mut self.spans[self.thread];
        *span = Span { first: span.first.min(now), last: now };
    }

    fn go_to(&mut self, thread: u64) -> Op {
        let next = self.numbers.len() as u32;
        let number = *self.numbers.entry(thread).or_insert(next);
        if number == next {
            self.spans.push(Span::NEVER);
        }
        self.thread = number as usize;
        Op::thread(number)
    }
}

/// A file that is read from its front, wherever others read it.
struct FromStart<'a> {
    file: &'a File,
    at: u64,
}

impl Read for FromStart<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}
