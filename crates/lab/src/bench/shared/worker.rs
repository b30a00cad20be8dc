//! A process that works on a segment: one window of time after the other, as told on standard input. `boost.cpp` does the
//! same.

use std::io::{self, BufRead, Write};

use anyhow::{Context, Result};
use heapwright_shared::{Place, PolicyKind, Settings, SharedHeap};

use super::clock::{Clock, read, sleep_until};
use super::load::Work;
use super::task::{Role, Task};
use crate::heaps::{Malloc, Memory, Segment};

/// The hidden command under which a worker is started.
pub const COMMAND: &str = "bench-shared-worker";

/// The name of the malloc of the worker's own process.
pub const MALLOC: &str = "malloc";

/// What a worker says once its heap is in its state.
pub const READY: &str = "ready";

/// As Boost.Interprocess aligns its blocks, so that neither is ahead for its rounding.
const GRANULE: u32 = 16;

/// Works as asked until standard input ends.
pub fn serve(task: &Task) -> Result<()> {
    if task.allocator == MALLOC {
        return serve_on(Malloc, task);
    }
    let policy = PolicyKind::from_name(&task.allocator).with_context(|| format!("no policy {}", task.allocator))?;
    let place = Place::new(&task.name)?;
    let heap = match task.role {
        Role::Create => {
            SharedHeap::create(&place, &Settings { size: task.bytes, policy, granule: GRANULE, ..Settings::default() })
        }
        Role::Join => SharedHeap::open(&place),
    };
    serve_on(Segment::of(heap?), task)
}

fn serve_on(heap: impl Memory, task: &Task) -> Result<()> {
    let mut work = Work::settle(heap, task.load, task.seed)?;
    say(READY)?;
    for line in io::stdin().lock().lines() {
        let window = Window::parse(&line?).context("not a window of time")?;
        sleep_until(window.start);
        work.run_until(window.begin)?;
        let busy = read(Clock::Processor);
        let pairs = work.run_until(window.end)?;
        say(&format!("{pairs} {}", read(Clock::Processor) - busy))?;
    }
    Ok(())
}

fn say(words: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{words}")?;
    out.flush().context("nobody listens")
}

/// When all workers work, by the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// They start.
    pub start: u64,
    /// What they do begins to count.
    pub begin: u64,
    /// They stop.
    pub end: u64,
}

impl Window {
    /// The line that tells it.
    pub fn to_line(self) -> String {
        format!("{} {} {}", self.start, self.begin, self.end)
    }

    fn parse(line: &str) -> Option<Window> {
        let mut moments = line.split(' ').map(|moment| moment.parse().ok());
        Some(Window { start: moments.next()??, begin: moments.next()??, end: moments.next()?? })
    }
}

/// What one worker did in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Pairs of an allocate and a free.
    pub pairs: u64,
    /// Nanoseconds on a processor.
    pub busy: u64,
}

impl Done {
    /// What a worker's line says.
    pub fn parse(line: &str) -> Option<Done> {
        let mut figures = line.split(' ').map(|figure| figure.parse().ok());
        let done = Done { pairs: figures.next()??, busy: figures.next()?? };
        (done.pairs > 0 && done.busy > 0).then_some(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_survive_their_line() {
        let window = Window { start: 1, begin: 2, end: 3 };
        assert_eq!(Window::parse(&window.to_line()), Some(window));
        assert_eq!(Window::parse("1 2"), None);
    }

    #[test]
    fn a_worker_that_did_nothing_says_nothing() {
        assert_eq!(Done::parse("32 100"), Some(Done { pairs: 32, busy: 100 }));
        for line in ["0 100", "32 0", "32", "ready"] {
            assert_eq!(Done::parse(line), None, "{line}");
        }
    }
}
