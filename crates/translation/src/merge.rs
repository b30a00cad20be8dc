//! Merges the buffers of a process's threads into one sequence of calls, ordered by turn.
//!
//! A call that happens after another thread's call for the same block is in a turn with a higher number, and was
//! recorded after that. So whatever precedes a call is there when the call is seen, and a look at another buffer
//! *after* that finds it. Calls are therefore passed on in the order of their turns as far as they were seen before the
//! last look at all buffers of which nothing is left.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::Range;

use anyhow::{Context, Result, bail, ensure};
use heapwright_stream::{Buffer, Entry, Mapping, Record, Run, SLOTS, Stack, State, Usage};

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
    /// Whether a thread has begun the buffer, and it has not been read to its end.
    is_open: bool,
    /// Number of slots that have been read.
    read: u32,
    /// Number of slots that were complete at the last look. A look takes the line in which the process counts them from
    /// its cache, so that it is not done for each call.
    complete: u32,
    /// The [`Merge::looks`] at which they were seen.
    seen: u64,
    /// The number of the turn of the next call.
    turn: u64,
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
#[derive(Default)]
pub struct Merge {
    /// Indexed by the buffer's number.
    cursors: Vec<Cursor>,
    /// Buffers with a decoded next call, by its turn.
    ready: BinaryHeap<Reverse<(u64, u32)>>,
    /// Buffers that had nothing more at the last look.
    waiting: Vec<u32>,
    /// Number of looks at all the buffers that had nothing more.
    looks: u64,
    /// Number of calls that were made after the recording had ended. They are dropped.
    late: u64,
}

/// Access to the buffers.
pub trait Buffers {
    /// Returns the buffer with this number.
    fn buffer(&self, number: u32) -> &Buffer;
    /// Releases a buffer that has been read to its end.
    fn release(&self, number: u32);
}

impl Merge {
    /// Adds a buffer that a thread has begun. Fails when it is one that has not been read to its end.
    pub fn add(&mut self, buffer: u32) -> Result<()> {
        let index = buffer as usize;
        if self.cursors.len() <= index {
            self.cursors.resize(index + 1, Cursor::default());
        }
        ensure!(!self.cursors[index].is_open, DAMAGED);
        self.cursors[index] = Cursor { is_open: true, ..Cursor::default() };
        self.waiting.push(buffer);
        Ok(())
    }

    /// Releases a buffer that has been read to its end.
    fn release(cursor: &mut Cursor, buffers: &impl Buffers, buffer: u32) {
        cursor.is_open = false;
        buffers.release(buffer);
    }

    /// Returns the number of calls so far that were made after the recording had ended.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Returns the number of looks so far.
    pub fn looks(&self) -> u64 {
        self.looks
    }

    /// Returns whether all calls have been passed on that were seen at this look, or before.
    pub fn has_passed(&self, look: u64) -> bool {
        self.ready.iter().all(|&Reverse((_, number))| self.cursors[number as usize].seen > look)
    }

    /// Looks at the buffers of which nothing is left.
    pub fn look(&mut self, buffers: &impl Buffers, sink: &mut impl Sink) -> Result<()> {
        self.looks += 1;
        let mut at = 0;
        while at < self.waiting.len() {
            let number = self.waiting[at];
            let cursor = &mut self.cursors[number as usize];
            match cursor.look(buffers.buffer(number), self.looks, sink)? {
                Found::Call(turn) => self.ready.push(Reverse((turn, number))),
                Found::End => Self::release(cursor, buffers, number),
                Found::Nothing => {
                    at += 1;
                    continue;
                }
            }
            self.waiting.swap_remove(at);
        }
        Ok(())
    }

    /// Passes calls that were seen before the last look to `sink`; those of turn `end` and later ones are late. Returns
    /// whether there are any calls, passed or seen. All buffers have been [added](Merge::add) that were begun when
    /// those calls were seen.
    pub fn read(&mut self, buffers: &impl Buffers, end: u64, sink: &mut impl Sink) -> Result<bool> {
        let mut any = false;
        while let Some(mut first) = self.ready.peek_mut() {
            let Reverse((_, number)) = *first;
            let (buffer, cursor) = (buffers.buffer(number), &mut self.cursors[number as usize]);
            if cursor.seen == self.looks {
                break;
            }
            any = true;
            let mut found = cursor.read_turn(buffer, end, &mut self.late, sink)?;
            if matches!(found, Found::Nothing) {
                found = cursor.look(buffer, self.looks, sink)?;
            }
            match found {
                Found::Call(turn) => *first = Reverse((turn, number)),
                Found::End => {
                    PeekMut::pop(first);
                    Self::release(cursor, buffers, number);
                }
                Found::Nothing => {
                    PeekMut::pop(first);
                    self.waiting.push(number);
                }
            }
        }
        Ok(any || !self.ready.is_empty())
    }
}

/// What a look at a buffer finds.
enum Found {
    /// A call of this turn.
    Call(u64),
    /// Nothing more at present.
    Nothing,
    /// Nothing more, and there will be nothing more.
    End,
}

impl Cursor {
    /// Looks how many slots of the buffer are complete, and finds the next call.
    fn look(&mut self, buffer: &Buffer, look: u64, sink: &mut impl Sink) -> Result<Found> {
        // Loaded first: nothing is added after this state.
        let is_over = buffer.state() == State::Full;
        (self.complete, self.seen) = (buffer.count().min(SLOTS), look);
        Ok(match self.next(buffer, sink)? {
            Found::Nothing if is_over => Found::End,
            found => found,
        })
    }

    /// Passes the call on that `next` found, and the other calls of its turn that are complete, unless they are late.
    fn read_turn(&mut self, buffer: &Buffer, end: u64, late: &mut u64, sink: &mut impl Sink) -> Result<Found> {
        let turn = self.turn;
        loop {
            if turn >= end {
                *late += u64::from(self.call.is_some_and(|record| record.call.ends_call()));
                self.pass_over();
            } else if !self.pass_run(buffer, sink)? {
                self.pass_on(buffer, sink)?;
            }
            match self.next(buffer, sink)? {
                Found::Call(following) if following == turn => {}
                found => return Ok(found),
            }
        }
    }

    /// Finds the next call among the complete slots, if there is one. Passes whatever precedes it to `sink`.
    #[inline(always)]
    fn next(&mut self, buffer: &Buffer, sink: &mut impl Sink) -> Result<Found> {
        while self.read < self.complete {
            let entry = entry(buffer, self.read)?;
            if let Entry::Call(record) = entry {
                self.call = Some(record);
                return Ok(Found::Call(self.turn));
            }
            self.note(buffer, entry, sink)?;
            self.read = self.read.saturating_add(entry.slots());
        }
        Ok(Found::Nothing)
    }

    /// Notes an entry that is no call, or passes it to `sink`.
    #[inline(never)]
    fn note(&mut self, buffer: &Buffer, entry: Entry, sink: &mut impl Sink) -> Result<()> {
        match entry {
            Entry::Call(_) => {}
            Entry::Turn(turn) => self.turn = turn,
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

    /// Passes calls on from the one that `next` found, as long as they follow one another. Returns `false`, and has
    /// passed none, when more is recorded of the first one than its path.
    fn pass_run(&mut self, buffer: &Buffer, sink: &mut impl Sink) -> Result<bool> {
        if self.ahead.is_some() {
            return Ok(false);
        }
        let rest = sink.take_run(self.thread, buffer.run(self.read..self.complete))?;
        let read = self.complete - rest.rest();
        let has_passed = read > self.read;
        self.read = read;
        Ok(has_passed)
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

#[cfg(test)]
mod tests;
