//! A trace compiled for replay: operations of fixed length that name slots of a table.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result};
use foldhash::fast::FixedState;
use heapwright_host::files::{self, ensure_rereadable};
use heapwright_host::names::Shown;
use heapwright_host::temporary;
use heapwright_trace::{Event, Kind, ReadError, Reader, Sample, Totals};

use super::op::{Op, code, written};
use super::slots::{Live, Slots};
use super::span::Span;
use super::thinned::Thinned;
use super::timeline::{Interpolated, Mark, Timeline};
use super::windows::{Clock, Divider, Rules, Windows};

/// Maximal number of operations that are performed between two looks at the clock.
pub(super) const LONGEST_WINDOW: u64 = 1 << 16;

/// Threads may have this many bytes more live at one time than were recorded, or an eighth of the peak if that is more.
const LEAST_AHEAD: u64 = 64 << 10;

/// A trace as operations, in an unnamed temporary file. Every event is one operation, so both have the same number.
///
/// The file contains the operations, the number of each thread's last event, the ends of the windows, and the marks.
pub struct Script {
    file: File,
    counts: Counts,
    spans: Vec<Span>,
    slots: usize,
    totals: Totals,
    samples: Vec<Sample>,
    has_times: bool,
    windows: Windows,
    marks: usize,
    damage: Option<ReadError>,
    incomplete: Option<String>,
}

/// Figures that are counted while compiling.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    events: u64,
    /// Of these, changes of threads.
    changes: u64,
    operations: u64,
    blocks: u64,
    left_out: u64,
    requested: u64,
    peak_requested: u64,
    written: u64,
    peak_written: u64,
    pub(super) peak_event: u64,
    pub(super) longest: u64,
}

impl Script {
    /// Reads a trace, up to damage if there is any. Needs memory in proportion to the number of live blocks, and 16
    /// bytes per event in a temporary file that is removed with the script.
    ///
    /// # Errors
    /// When the trace cannot be read, or the temporary file cannot be written.
    pub fn compile(trace: &Path) -> Result<Script> {
        ensure_rereadable(trace)?;
        let files = [files::open(trace)?, files::open(trace)?, files::open(trace)?];
        let read = || -> Result<Script> {
            let [first, second, third] = files.map(|file| Reader::new(BufReader::new(file)));
            let touched = first?.touched_pages()?;
            let recorded = Recorded::read(second?)?;
            Script::from_reader(third?.with_times().up_to_damage(), touched, recorded)
        };
        read().with_context(|| trace.shown().into_owned())
    }

    /// Compiles a trace. `touched` contains the number of touched pages of long blocks, by block number.
    fn from_reader(mut trace: Reader<'_>, touched: HashMap<u64, u64>, recorded: Recorded) -> Result<Script> {
        let file = temporary::file().context("the operations cannot be stored")?;
        let mut compiler = Compiler::new(touched);
        let mut timeline = Timeline::new();
        let mut out = Output { file: BufWriter::with_capacity(1 << 18, file) };
        while let Some(event) = trace.next_event()? {
            if let Some(nanoseconds) = trace.time() {
                timeline.push(compiler.counts.events, nanoseconds);
            }
            out.put(&compiler.compile(event)?.to_bytes())?;
        }
        let damage = trace.take_damage();
        let incomplete = trace.about().incomplete().map(str::to_owned);
        let Compiler { counts, slots, spans, .. } = compiler;
        let timeline = if timeline.is_known() { timeline } else { recorded.timeline };
        let (has_times, marks) = (timeline.is_known(), timeline.into_marks());
        let windows = divide(out.contents()?, &counts, &spans, &marks)?;
        let numbers = spans.iter().map(|span| span.last).chain(windows.ends.iter().copied());
        let numbers = numbers.chain(marks.iter().flat_map(|mark| [mark.event, mark.nanoseconds, mark.pause]));
        for number in numbers {
            out.put(&number.to_ne_bytes())?;
        }
        let (totals, samples) = (Totals::of(trace.about()), recorded.samples);
        let (file, slots, marks) = (out.into_file()?, slots.len(), marks.len());
        Ok(Script { file, counts, spans, slots, totals, samples, has_times, windows, marks, damage, incomplete })
    }

    /// Returns why the script contains only a part of the trace.
    pub fn damage(&self) -> Option<&ReadError> {
        self.damage.as_ref()
    }

    /// Returns why the recording ended before the program did, if it did so.
    pub fn incomplete(&self) -> Option<&str> {
        self.incomplete.as_deref()
    }

    /// Number of events in the trace.
    pub fn events(&self) -> u64 {
        self.counts.events
    }

    /// Returns the number of events without changes of threads.
    pub fn calls(&self) -> u64 {
        self.counts.events - self.counts.changes
    }

    /// Number of events that are calls of the allocator.
    pub fn operations(&self) -> u64 {
        self.counts.operations
    }

    /// Number of blocks that are allocated, or result from resizing.
    pub fn blocks(&self) -> u64 {
        self.counts.blocks
    }

    /// Number of events that are left out because their block is not live.
    pub fn left_out(&self) -> u64 {
        self.counts.left_out
    }

    /// Number of threads with events.
    pub fn threads(&self) -> u64 {
        self.spans.iter().filter(|span| span.first <= span.last).count() as u64
    }

    /// Peak of the requested bytes of live blocks.
    pub fn peak_requested(&self) -> u64 {
        self.counts.peak_requested
    }

    /// Peak of the bytes of live blocks that are written to.
    pub(super) fn peak_written(&self) -> u64 {
        self.counts.peak_written
    }

    /// Peak of the bytes that glibc had from the system in the recorded run, if the trace contains it.
    pub fn recorded_peak(&self) -> Option<u64> {
        self.totals.peak_system
    }

    /// What the recorded process used as a whole, as far as the trace contains it.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Returns the samples of the recorded process, in their order: at most 4,096. A longer trace is thinned evenly; of
    /// each stretch the sample with the most resident memory is kept.
    pub fn recorded_samples(&self) -> &[Sample] {
        &self.samples
    }

    /// Whether the trace contains when its events happened: the times of all events, or those of samples, between which
    /// times are interpolated.
    pub fn has_times(&self) -> bool {
        self.has_times
    }

    /// Returns the number in the trace of the block that was in a slot at an event.
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

    /// Returns the number of thread numbers. The program's first thread has number 0, with or without events.
    pub(super) fn thread_numbers(&self) -> u64 {
        self.spans.len() as u64
    }

    /// The windows in which threads run ahead of one another. A script of one thread has none.
    pub(super) fn windows(&self) -> &Windows {
        &self.windows
    }

    /// Number of marks of the clock.
    pub(super) fn marks(&self) -> usize {
        self.marks
    }

    /// Maximal number of live blocks.
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

/// The length of windows when nothing else ends them. Long enough that the barrier at the end of each does not matter.
pub(super) fn window_length(events: u64) -> u64 {
    events.div_ceil(64).next_power_of_two().clamp(LONGEST_WINDOW / 16, LONGEST_WINDOW)
}

/// Divides the operations in `file` into windows, if they are of several threads.
fn divide(file: &File, counts: &Counts, spans: &[Span], marks: &[Mark]) -> Result<Windows> {
    if spans.len() < 2 {
        return Ok(Windows { ends: Vec::new(), threads: 1 });
    }
    let ahead = (counts.peak_written / 8).max(LEAST_AHEAD);
    let mut divider = Divider::new(Rules { length: window_length(counts.events), ahead, spans });
    let mut ops = BufReader::with_capacity(1 << 18, FromStart { file, at: 0 });
    let (mut bytes, mut marks) = ([0; 16], marks.iter().peekable());
    for event in 0..counts.events {
        ops.read_exact(&mut bytes).context("cannot read the operations again")?;
        let moves = marks.next_if(|mark| mark.event <= event).is_some();
        divider.push(Op::from_bytes(bytes), if moves { Clock::Moves } else { Clock::Runs });
    }
    Ok(divider.finish())
}

/// What the samples of a trace contain.
struct Recorded {
    samples: Vec<Sample>,
    timeline: Timeline,
}

impl Recorded {
    fn read(trace: Reader<'_>) -> Result<Recorded> {
        let (mut samples, mut interpolated) = (Thinned::new(), Interpolated::new());
        trace.each_sample(|sample| {
            interpolated.push(&sample);
            samples.push(sample);
        })?;
        Ok(Recorded { samples: samples.into_samples(), timeline: interpolated.timeline })
    }
}

/// The temporary file while it is written.
struct Output {
    file: BufWriter<File>,
}

impl Output {
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).context(Self::FAILED)
    }

    /// Returns the file with all that was written so far.
    fn contents(&mut self) -> Result<&File> {
        self.file.flush().context(Self::FAILED)?;
        Ok(self.file.get_ref())
    }

    fn into_file(self) -> Result<File> {
        self.file.into_inner().context(Self::FAILED)
    }

    const FAILED: &str = "cannot write the operations to a temporary file: is its disk full?";
}

/// The state of compiling a trace.
struct Compiler {
    counts: Counts,
    slots: Slots,
    spans: Vec<Span>,
    /// For each thread number of the trace, the number in the order of first events.
    numbers: HashMap<u64, u32, FixedState>,
    thread: usize,
    /// The pages that the program touched of long blocks, by the numbers of the blocks, where that is known.
    touched: HashMap<u64, u64>,
}

impl Compiler {
    /// A trace begins in thread 0, the program's first.
    fn new(touched: HashMap<u64, u64>) -> Compiler {
        let (counts, slots) = (Counts::default(), Slots::default());
        Compiler { counts, slots, spans: vec![Span::NEVER], numbers: HashMap::from_iter([(0, 0)]), thread: 0, touched }
    }

    fn compile(&mut self, event: Event) -> Result<Op> {
        let op = match event {
            Event::Thread { thread } => {
                self.counts.changes += 1;
                self.go_to(thread)
            }
            Event::Allocate { block, kind, size, align } => self.allocate(block, kind, size, align)?,
            Event::Resize { block, becomes, size } => self.resize(block, becomes, size),
            Event::Free { block } => self.free(block),
            Event::Failed { .. } => Op::default(),
        };
        self.record_thread();
        self.counts.events += 1;
        Ok(op)
    }

    fn allocate(&mut self, block: u64, kind: Kind, size: u64, align: u64) -> Result<Op> {
        let pages = self.touched.get(&block).copied();
        let written = written(size, pages);
        let slot = self.slots.insert(self.thread, block, size, written)?;
        self.appears(size, written);
        Ok(match kind {
            Kind::Malloc => Op::malloc(slot, size, pages),
            Kind::Calloc => Op::calloc(slot, size, pages),
            Kind::Aligned => Op::aligned(slot, size, align.trailing_zeros(), pages),
        })
    }

    fn resize(&mut self, block: u64, becomes: u64, size: u64) -> Op {
        let pages = self.touched.get(&becomes).copied();
        let written = written(size, pages);
        let Some(old) = self.slots.rename(block, becomes, size, written) else { return self.leave_out(Op::lost()) };
        self.disappears(&old);
        self.appears(size, written);
        Op::resize(old.slot, size, old.written, pages)
    }

    fn free(&mut self, block: u64) -> Op {
        let Some(old) = self.slots.remove(self.thread, block) else { return self.leave_out(Op::default()) };
        self.disappears(&old);
        self.counts.operations += 1;
        Op::free(old.slot, old.written)
    }

    fn leave_out(&mut self, op: Op) -> Op {
        self.counts.left_out += 1;
        op
    }

    fn disappears(&mut self, block: &Live) {
        let counts = &mut self.counts;
        counts.requested = counts.requested.saturating_sub(block.size);
        counts.written = counts.written.saturating_sub(block.written);
    }

    fn appears(&mut self, size: u64, written: u64) {
        let counts = &mut self.counts;
        counts.written = counts.written.saturating_add(written);
        counts.peak_written = counts.peak_written.max(counts.written);
        counts.operations += 1;
        counts.blocks += 1;
        counts.requested = counts.requested.saturating_add(size);
        counts.longest = counts.longest.max(size);
        if counts.requested > counts.peak_requested {
            (counts.peak_requested, counts.peak_event) = (counts.requested, counts.events);
        }
    }

    /// Records the current event as the thread's last one, and as its first one if it has none yet.
    fn record_thread(&mut self) {
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

/// Reads a file from its beginning, independently of the file's own position.
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

#[cfg(test)]
mod tests {
    use super::*;
    use heapwright_trace::{About, Writer};
    use tempfile::NamedTempFile;

    /// Compiles the trace that `write` writes.
    fn compiled(write: impl FnOnce(&mut Writer<&mut NamedTempFile>)) -> Script {
        let mut file = NamedTempFile::new().unwrap();
        let mut writer = Writer::new(&mut file, &About::default()).unwrap();
        write(&mut writer);
        writer.finish().unwrap();
        Script::compile(file.path()).unwrap()
    }

    #[test]
    fn the_recorded_process_is_known() {
        let totals = Totals { peak_system: Some(1 << 20), huge_pages_off: true, ..Totals::default() };
        let sample = Sample { event: 1, nanoseconds: 7, resident: 4096, ..Sample::default() };
        let script = compiled(|writer| {
            writer.allocate(Kind::Malloc, 10, 16).unwrap();
            writer.sample(&sample).unwrap();
            totals.texts().for_each(|(name, text)| writer.add_text(name, &text).unwrap());
        });
        assert_eq!((script.totals(), script.recorded_samples()), (&totals, &[sample][..]));
        assert_eq!((script.recorded_peak(), script.has_times()), (Some(1 << 20), false));
    }

    #[test]
    fn times_are_those_of_events_or_of_samples() {
        let with_times = compiled(|writer| {
            writer.at(5);
            writer.allocate(Kind::Malloc, 10, 16).unwrap();
        });
        let with_samples = compiled(|writer| {
            writer.allocate(Kind::Malloc, 10, 16).unwrap();
            [0, 1].into_iter().for_each(|event| writer.sample(&Sample { event, ..Sample::default() }).unwrap());
        });
        let without = compiled(|writer| {
            writer.allocate(Kind::Malloc, 10, 16).unwrap();
        });
        assert_eq!([with_times, with_samples, without].map(|script| script.has_times()), [true, true, false]);
    }
}
