//! The buffers of a process's threads as one sequence of calls, in the order of their tickets.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use heapwright_stream::{Buffer, Entry, Mapping, Record, SLOTS, Stack, State};

/// For how long a call is waited for whose ticket was taken, when others are there that came after it. A thread that was
/// stopped between two instructions comes back; one that was led out of them by a signal handler does not.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is wrong when a stream cannot be understood.
pub const DAMAGED: &str = "the stream is damaged: the program has overwritten it";

/// What a process tells.
pub enum Told<'b> {
    /// A call, and its ticket.
    Call(Call<'b>, u64),
    /// Where code is mapped. Comes as soon as it is seen, before the calls of other buffers.
    Mapping(Mapping<'b>),
}

/// A call, and the thread that made it.
#[derive(Clone, Copy, Debug)]
pub struct Call<'b> {
    /// The thread's number.
    pub thread: u32,
    /// What it called.
    pub record: Record,
    /// When, in ticks of the process's counter, if that is recorded.
    pub ticks: Option<u64>,
    /// The stack of the thread, if that is recorded.
    pub stack: Option<Stack<'b>>,
}

/// A buffer that is being read.
#[derive(Clone, Copy, Debug, Default)]
struct Cursor {
    /// How many slots have been read.
    read: u32,
    base: u64,
    thread: u32,
    ticks: Option<u64>,
    /// The slot of the next call's stack.
    stack: Option<u32>,
}

/// How far the buffers of a stream have been read. Memory: a few words per buffer.
pub struct Merge {
    /// By the buffer's number.
    cursors: Vec<Cursor>,
    /// Buffers whose next call is known, by its ticket.
    ready: BinaryHeap<Reverse<(u64, u32)>>,
    /// Buffers in which there was nothing more when they were last looked at.
    waiting: Vec<u32>,
    /// The ticket of the next call.
    next: u64,
    /// Since when it has been waited for, when others are there.
    stuck: Option<Instant>,
}

/// Where the buffers are.
pub trait Buffers {
    /// The buffer of this number.
    fn buffer(&self, number: u32) -> &Buffer;
    /// All of a buffer has been read.
    fn release(&self, number: u32);
}

impl Merge {
    /// The call with ticket `first` is the first.
    pub fn from(first: u64) -> Merge {
        let (cursors, ready, waiting) = (Vec::new(), BinaryHeap::new(), Vec::new());
        Merge { cursors, ready, waiting, next: first, stuck: None }
    }

    /// A buffer was begun.
    pub fn add(&mut self, buffer: u32) {
        let index = buffer as usize;
        if self.cursors.len() <= index {
            self.cursors.resize(index + 1, Cursor::default());
        }
        self.cursors[index] = Cursor::default();
        self.waiting.push(buffer);
    }

    /// Gives to `take` what comes next, some thousand calls of it; returns whether there was anything.
    pub fn read(&mut self, buffers: &impl Buffers, mut take: impl FnMut(Told) -> Result<()>) -> Result<bool> {
        self.look_again(buffers, &mut take)?;
        let mut any = false;
        while let Some(&Reverse((ticket, buffer))) = self.ready.peek() {
            if ticket > self.next {
                break;
            }
            self.ready.pop();
            any = true;
            self.read_run(buffers, buffer, ticket, &mut take)?;
        }
        self.stuck = if any || self.ready.is_empty() { None } else { self.stuck.or_else(|| Some(Instant::now())) };
        Ok(any)
    }

    /// Passes over tickets that nobody wrote, if there are any; returns whether there were. They are `lost` when the process is dead.
    pub fn pass_over(&mut self, lost: bool) -> bool {
        if !lost && self.stuck.is_none_or(|since| since.elapsed() < PATIENCE) {
            return false;
        }
        let Some(&Reverse((ticket, _))) = self.ready.peek() else { return false };
        self.next = self.next.max(ticket);
        self.stuck = None;
        true
    }

    /// Looks for more in those buffers that had nothing.
    fn look_again(&mut self, buffers: &impl Buffers, take: &mut impl FnMut(Told) -> Result<()>) -> Result<()> {
        let mut at = 0;
        while at < self.waiting.len() {
            let number = self.waiting[at];
            let buffer = buffers.buffer(number);
            // Asked first: nothing comes after it.
            let over = buffer.state() == State::Full;
            match self.cursors[number as usize].next(buffer, buffer.count(), take)? {
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

    /// Takes the call with this ticket from a buffer, and what follows there as long as it is next.
    fn read_run(
        &mut self,
        buffers: &impl Buffers,
        number: u32,
        mut ticket: u64,
        take: &mut impl FnMut(Told) -> Result<()>,
    ) -> Result<()> {
        let buffer = buffers.buffer(number);
        let count = buffer.count();
        let cursor = &mut self.cursors[number as usize];
        loop {
            take(Told::Call(cursor.take(buffer)?, ticket))?;
            self.next = self.next.max(ticket + 1);
            match cursor.next(buffer, count, take)? {
                Some(next) if next <= self.next => ticket = next,
                Some(next) => {
                    self.ready.push(Reverse((next, number)));
                    return Ok(());
                }
                None => {
                    self.waiting.push(number);
                    return Ok(());
                }
            }
        }
    }
}

impl Cursor {
    /// The ticket of the next call, if there is one among the first `count` slots. Gives to `take` what stands before it.
    fn next(&mut self, buffer: &Buffer, count: u32, take: &mut impl FnMut(Told) -> Result<()>) -> Result<Option<u64>> {
        while self.read < count.min(SLOTS) {
            let entry = entry(buffer, self.read)?;
            match entry {
                Entry::Call { since_base, .. } => return Ok(Some(self.base.saturating_add(since_base))),
                Entry::Base(base) => self.base = base,
                Entry::Thread(thread) => self.thread = thread,
                Entry::Time(ticks) => self.ticks = Some(ticks),
                Entry::Stack { .. } => self.stack = Some(self.read),
                Entry::Mapping { .. } => take(Told::Mapping(buffer.mapping(self.read).context(DAMAGED)?))?,
            }
            self.read = self.read.saturating_add(entry.slots());
        }
        Ok(None)
    }

    /// The call that `next` has found.
    fn take<'b>(&mut self, buffer: &'b Buffer) -> Result<Call<'b>> {
        let Entry::Call { record, .. } = entry(buffer, self.read)? else { bail!(DAMAGED) };
        self.read += 1;
        let stack = self.stack.take().map(|at| buffer.stack(at).context(DAMAGED)).transpose()?;
        Ok(Call { thread: self.thread, record, ticks: self.ticks.take(), stack })
    }
}

fn entry(buffer: &Buffer, number: u32) -> Result<Entry> {
    buffer.entry(number).context(DAMAGED)
}
