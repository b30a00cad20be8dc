//! Merges the buffers of a process's threads into one sequence of calls, ordered by ticket.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use heapwright_stream::{Buffer, Entry, Mapping, Record, Run, SLOTS, Stack, State, Usage};

/// How long to wait for a call whose ticket was taken when later calls are there. A thread that was preempted between
/// two instructions resumes; one that a signal handler left by a long jump does not.
const PATIENCE: Duration = Duration::from_secs(1);

/// The error of a stream that cannot be decoded.
pub const DAMAGED: &str = "the stream is damaged: the program has overwritten it";

/// What takes the items of a process's stream.
pub trait Sink {
    /// Takes calls of one thread, each with its path if that is recorded. Returns what is left of the run.
    ///
    /// # Errors
    /// When one cannot be written.
    fn take_run<'b>(&mut self, thread: u32, run: Run<'b>) -> Result<Run<'b>>;

    /// Takes a call, and what else is recorded of it.
    ///
    /// # Errors
    /// When it cannot be written.
    fn take_with(&mut self, call: Call, more: &More<'_>) -> Result<()>;

    /// Takes a mapping of code. Delivered as soon as it is read, before the calls of other buffers.
    fn add_mapping(&mut self, mapping: &Mapping<'_>);

    /// Takes note that code is not mapped any more. Delivered as a mapping.
    fn remove_code(&mut self, code: Range<u64>);

    /// Takes the name of a frame of a Python function. Delivered as a mapping.
    fn add_python_name(&mut self, name: &PythonName<'_>);
}

/// The name of a frame of a Python function.
#[derive(Clone, Copy, Debug)]
pub struct PythonName<'b> {
    /// The hash of the frame.
    pub hash: u64,
    /// The line that runs.
    pub line: u32,
    /// The function's name.
    pub function: &'b [u8],
    /// The path of its file.
    pub file: &'b [u8],
}

/// A call, and the thread that made it.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The thread's number.
    pub thread: u32,
    /// The function and its arguments.
    pub record: Record,
}

/// What is recorded of some calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct More<'b> {
    /// Time in ticks of the process's counter, if times are recorded.
    pub ticks: Option<u64>,
    /// The stack of the thread, if it is recorded as a copy.
    pub stack: Option<Stack<'b>>,
    /// The stack of the thread, if it is recorded as a path.
    pub path: Option<CallPath<'b>>,
    /// The Python functions in which the call was made, if they are recorded.
    pub python: Option<Python<'b>>,
    /// What the process used before the call, if that was determined then.
    pub usage: Option<Usage>,
}

/// A stack that its thread has followed.
#[derive(Clone, Copy, Debug)]
pub enum CallPath<'b> {
    /// Its number.
    Known(u32),
    /// The addresses of its frames, innermost first; at least one.
    New(&'b [u64]),
}

impl<'b> CallPath<'b> {
    fn at(buffer: &'b Buffer, slot: u32) -> Option<CallPath<'b>> {
        match buffer.entry(slot)? {
            Entry::Path(number) => Some(CallPath::Known(number)),
            _ => buffer.calls(slot).map(CallPath::New),
        }
    }
}

/// A stack of Python functions.
#[derive(Clone, Copy, Debug)]
pub enum Python<'b> {
    /// Its number.
    Known(u32),
    /// The hashes of its frames, innermost first; at least one.
    New(&'b [u64]),
}

impl<'b> Python<'b> {
    fn at(buffer: &'b Buffer, slot: u32) -> Option<Python<'b>> {
        match buffer.entry(slot)? {
            Entry::Python(number) => Some(Python::Known(number)),
            _ => buffer.calls(slot).map(Python::New),
        }
    }
}

/// Reading position in a buffer.
#[derive(Clone, Copy, Debug, Default)]
struct Cursor {
    /// Number of slots that have been read.
    read: u32,
    /// Number of slots that were complete at the last look. A look takes the line in which the process counts them from
    /// its cache, so that it is not done for each call.
    complete: u32,
    base: u64,
    thread: u32,
    /// The next call, if it has been found.
    call: Option<Record>,
    /// What precedes the next call, if anything does.
    ahead: Option<Ahead>,
}

/// What precedes a call in its buffer.
#[derive(Clone, Copy, Debug, Default)]
struct Ahead {
    ticks: Option<u64>,
    /// The slot of the stack.
    stack: Option<u32>,
    /// The slot of the path.
    path: Option<u32>,
    /// The slot of the Python functions.
    python: Option<u32>,
    /// The slot of what the process used.
    usage: Option<u32>,
}

/// Reading positions of all buffers of a stream. Memory: a few words per buffer.
pub struct Merge {
    /// Indexed by the buffer's number.
    cursors: Vec<Cursor>,
    /// Buffers with a decoded next call, by its ticket.
    ready: BinaryHeap<Reverse<(u64, u32)>>,
    /// Buffers that had nothing more at the last look.
    waiting: Vec<u32>,
    /// The ticket of the next call.
    next: u64,
    /// Number of calls that were made after the recording had ended. They are passed to nobody.
    late: u64,
    /// Since when this call has been missing while later ones are there.
    stuck: Option<Instant>,
}

/// The counts of a [`Merge`] that reading changes.
struct Progress<'m> {
    next: &'m mut u64,
    late: &'m mut u64,
}

/// Access to the buffers.
pub trait Buffers {
    /// Returns the buffer with this number.
    fn buffer(&self, number: u32) -> &Buffer;
    /// Releases a buffer that has been read to its end.
    fn release(&self, number: u32);
}

impl Merge {
    /// Creates a merge whose first call has ticket `first`.
    pub fn from(first: u64) -> Merge {
        let (cursors, ready, waiting) = (Vec::new(), BinaryHeap::new(), Vec::new());
        Merge { cursors, ready, waiting, next: first, late: 0, stuck: None }
    }

    /// Adds a buffer that a thread has begun.
    pub fn add(&mut self, buffer: u32) {
        let index = buffer as usize;
        if self.cursors.len() <= index {
            self.cursors.resize(index + 1, Cursor::default());
        }
        self.cursors[index] = Cursor::default();
        self.waiting.push(buffer);
    }

    /// Returns the number of calls so far that were made after the recording had ended.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Returns the ticket of the next call.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Passes the next calls whose tickets are below `end` to `sink`, up to a few thousand. Returns whether there were
    /// any calls.
    pub fn read(&mut self, buffers: &impl Buffers, end: u64, sink: &mut impl Sink) -> Result<bool> {
        self.look_again(buffers, sink)?;
        let mut any = false;
        while let Some(mut first) = self.ready.peek_mut() {
            let Reverse((ticket, number)) = *first;
            if ticket > self.next {
                break;
            }
            any = true;
            let progress = Progress { next: &mut self.next, late: &mut self.late };
            match self.cursors[number as usize].read_run(buffers.buffer(number), ticket, end, progress, sink)? {
                Some(following) => *first = Reverse((following, number)),
                None => {
                    PeekMut::pop(first);
                    self.waiting.push(number);
                }
            }
        }
        self.stuck = if any || self.ready.is_empty() { None } else { self.stuck.or_else(|| Some(Instant::now())) };
        Ok(any)
    }

    /// Skips tickets that no thread wrote, if there are any, and returns whether it did. They are `lost` when the
    /// process is dead.
    pub fn pass_over(&mut self, lost: bool) -> bool {
        if !lost && self.stuck.is_none_or(|since| since.elapsed() < PATIENCE) {
            return false;
        }
        let Some(&Reverse((ticket, _))) = self.ready.peek() else { return false };
        self.next = self.next.max(ticket);
        self.stuck = None;
        true
    }

    /// Looks again at the buffers that had nothing.
    fn look_again(&mut self, buffers: &impl Buffers, sink: &mut impl Sink) -> Result<()> {
        let mut at = 0;
        while at < self.waiting.len() {
            let number = self.waiting[at];
            let buffer = buffers.buffer(number);
            // Loaded first: nothing is added after this state.
            let over = buffer.state() == State::Full;
            let cursor = &mut self.cursors[number as usize];
            cursor.complete = buffer.count().min(SLOTS);
            match cursor.next(buffer, sink)? {
                Some(ticket) => self.ready.push(Reverse((ticket, number))),
                None if over => buffers.release(number),
                None => {
                    at += 1;
                    continue;
                }
            }
            self.waiting.swap_remove(at);
        }
        Ok(())
    }
}

impl Cursor {
    /// Passes the call on that `next` found, with this ticket, and the calls that follow it here as long as they are
    /// next. Returns the ticket of the one after them, if it is there.
    fn read_run(
        &mut self,
        buffer: &Buffer,
        mut ticket: u64,
        end: u64,
        progress: Progress<'_>,
        sink: &mut impl Sink,
    ) -> Result<Option<u64>> {
        loop {
            let passed = if ticket < end { self.pass_run(buffer, ticket..end, sink)? } else { 0 };
            if passed > 0 {
                ticket += passed;
            } else {
                if ticket < end {
                    self.pass_on(buffer, sink)?;
                } else {
                    *progress.late += 1;
                    self.pass_over();
                }
                ticket += 1;
            }
            *progress.next = (*progress.next).max(ticket);
            match self.next(buffer, sink)? {
                Some(following) if following <= *progress.next => ticket = following,
                following => return Ok(following),
            }
        }
    }

    /// Returns the ticket of the next call among the complete slots, if there is one. Passes whatever precedes it
    /// to `sink`.
    #[inline(always)]
    fn next(&mut self, buffer: &Buffer, sink: &mut impl Sink) -> Result<Option<u64>> {
        while self.read < self.complete {
            let entry = entry(buffer, self.read)?;
            if let Entry::Call { record, since_base } = entry {
                self.call = Some(record);
                return Ok(Some(self.base.saturating_add(since_base)));
            }
            self.note(buffer, entry, sink)?;
            self.read = self.read.saturating_add(entry.slots());
        }
        Ok(None)
    }

    /// Notes an entry that is no call, or passes it to `sink`.
    #[inline(never)]
    fn note(&mut self, buffer: &Buffer, entry: Entry, sink: &mut impl Sink) -> Result<()> {
        match entry {
            Entry::Call { .. } => {}
            Entry::Base(base) => self.base = base,
            Entry::Thread(thread) => self.thread = thread,
            Entry::Time(ticks) => self.ahead().ticks = Some(ticks),
            Entry::Path(_) | Entry::Calls { .. } => self.ahead().path = Some(self.read),
            Entry::Python(_) | Entry::PythonFrames { .. } => self.ahead().python = Some(self.read),
            Entry::PythonName { hash, line, .. } => {
                let (function, file) = buffer.python_name(self.read).context(DAMAGED)?;
                sink.add_python_name(&PythonName { hash, line, function, file });
            }
            Entry::Stack { .. } => self.ahead().stack = Some(self.read),
            Entry::Usage { .. } => self.ahead().usage = Some(self.read),
            Entry::Unmapped { start, length } => sink.remove_code(start..start.saturating_add(length)),
            Entry::Mapping { .. } => sink.add_mapping(&buffer.mapping(self.read).context(DAMAGED)?),
        }
        Ok(())
    }

    fn ahead(&mut self) -> &mut Ahead {
        self.ahead.get_or_insert_default()
    }

    /// Passes the call on that `next` found.
    fn pass_on(&mut self, buffer: &Buffer, sink: &mut impl Sink) -> Result<()> {
        let Some(record) = self.call else { bail!(DAMAGED) };
        let call = Call { thread: self.thread, record };
        self.read += 1;
        sink.take_with(call, &self.ahead.take().unwrap_or_default().read(buffer)?)
    }

    /// Passes calls on from the one that `next` found, whose ticket is the first of `tickets`, as long as they follow
    /// one another. Returns their number: 0 when more is recorded of the first one than its path.
    fn pass_run(&mut self, buffer: &Buffer, tickets: Range<u64>, sink: &mut impl Sink) -> Result<u64> {
        let Some(since_base) = tickets.start.checked_sub(self.base).filter(|_| self.ahead.is_none()) else {
            return Ok(0);
        };
        // No more slots than tickets, each of which takes a slot at least.
        let most = tickets.end.saturating_sub(tickets.start).min(u64::from(SLOTS)) as u32;
        let end = self.complete.min(self.read.saturating_add(most));
        let rest = sink.take_run(self.thread, buffer.run(self.read..end, since_base))?;
        self.read = end - rest.rest();
        Ok(rest.since_base() - since_base)
    }

    /// Passes over the call that `next` found.
    fn pass_over(&mut self) {
        self.ahead = None;
        self.read += 1;
    }
}

impl Ahead {
    fn read(self, buffer: &Buffer) -> Result<More<'_>> {
        let Ahead { ticks, stack, path, python, usage } = self;
        Ok(More {
            ticks,
            stack: stack.map(|at| buffer.stack(at).context(DAMAGED)).transpose()?,
            path: path.map(|at| CallPath::at(buffer, at).context(DAMAGED)).transpose()?,
            python: python.map(|at| Python::at(buffer, at).context(DAMAGED)).transpose()?,
            usage: usage.and_then(|at| buffer.usage(at)),
        })
    }
}

fn entry(buffer: &Buffer, number: u32) -> Result<Entry> {
    buffer.entry(number).context(DAMAGED)
}
