//! A measurement: several worker processes on one segment, for one window of time. This is the parent's side.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};
use heapwright_shared::Place;

use super::contender::Contender;
use heapwright_allocators::allocator::Allocator;
use heapwright_host::child::{Dialogue, to_json};
use heapwright_host::timer::{Clock, read};
use heapwright_workloads::shared::task::{Done, Figure, Load, Reply, Role, Task, Window};
use heapwright_workloads::shared::worker::JOB;

/// Time limit for a worker's reply, which takes milliseconds on an idle machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Nanoseconds between the request and the start of the window: enough for all workers to read the request.
const NOTICE: u64 = 2_000_000;

/// The parameters of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Measurement<'c> {
    /// The contender.
    pub contender: &'c Contender,
    /// Number of processes.
    pub processes: usize,
    /// The load of each process.
    pub load: Load,
    /// The length of the segment, in bytes.
    pub bytes: usize,
    /// Nanoseconds of the warm-up, and of the measured part.
    pub window: (u64, u64),
    /// The seed of the workers' random numbers.
    pub seed: u64,
}

impl Measurement<'_> {
    /// Starts the workers on a new segment and returns the load's figure. The mean is the nanoseconds per operation:
    /// processor time for one process; for several, elapsed time divided by the operations of all of them. The tail is
    /// that of the process whose tail is longest.
    ///
    /// # Errors
    /// When a worker cannot be started, fails, or does not answer.
    pub fn run(&self) -> Result<f64> {
        let segment = Name::own("bench");
        let mut workers = vec![self.start(&segment.0, 0)?];
        get_ready(&mut workers[0])?;
        for index in 1..self.processes {
            workers.push(self.start(&segment.0, index)?);
        }
        workers[1..].iter_mut().try_for_each(get_ready)?;
        drop(segment);
        let window = self.upcoming();
        workers.iter_mut().try_for_each(|worker| worker.send(&window))?;
        let done: Vec<Done> = workers.iter_mut().map(get_done).collect::<Result<_>>()?;
        if self.load.figure == Figure::Tail {
            return Ok(done.iter().map(|done| done.tail).max().unwrap_or(0) as f64);
        }
        // Elapsed time includes the waits of several workers for the lock and for processors; one alone never waits for
        // the lock.
        let time = if let [alone] = done[..] { alone.busy } else { self.window.1 };
        Ok(time as f64 / (2 * done.iter().map(|done| done.pairs).sum::<u64>()) as f64)
    }

    /// Starts a worker on a segment that exists, and waits until it is ready.
    ///
    /// # Errors
    /// When it cannot be started or fails.
    pub fn join(&self, segment: &Name) -> Result<Dialogue> {
        let mut worker = self.start(&segment.0, 1)?;
        get_ready(&mut worker)?;
        Ok(worker)
    }

    /// Makes a worker that is ready begin, and returns its window.
    ///
    /// # Errors
    /// As [`Dialogue::send`].
    pub fn begin(&self, worker: &mut Dialogue) -> Result<Window> {
        let window = self.upcoming();
        worker.send(&window)?;
        Ok(window)
    }

    /// Returns the next window.
    fn upcoming(&self) -> Window {
        let start = read(Clock::Wall) + NOTICE;
        Window { start, begin: start + self.window.0, end: start + self.window.0 + self.window.1 }
    }

    /// Starts a worker. The first one creates the segment.
    fn start(&self, segment: &str, index: usize) -> Result<Dialogue> {
        let task = Task {
            allocator: self.contender.allocator.to_owned(),
            name: segment.to_owned(),
            bytes: self.bytes,
            role: if index == 0 { Role::Create } else { Role::Join },
            load: self.load,
            seed: self.seed << 8 | index as u64,
        };
        let mut command = match &self.contender.program {
            None => JOB.command_for(&task)?,
            Some(program) => {
                let mut command = Command::new(program);
                command.arg(to_json(&task)?);
                command
            }
        };
        Allocator::System.apply(&mut command)?;
        Dialogue::start(command)
    }
}

/// The name of a segment, removed on drop. Attached processes keep the segment.
pub struct Name(pub String);

impl Name {
    /// Returns a name that no other process has.
    pub fn own(purpose: &str) -> Name {
        Name(format!("heapwright-{purpose}-{}", std::process::id()))
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        if let Ok(place) = Place::new(&self.0) {
            // Fails when there is no segment: for malloc, or when the worker that creates it failed. One of Boost's is
            // not of this format.
            let _ = fs::remove_file(place.path());
        }
    }
}

/// Waits until the worker's heap is prepared.
fn get_ready(worker: &mut Dialogue) -> Result<()> {
    match worker.receive(PATIENCE)? {
        Reply::Ready => Ok(()),
        reply => bail!("a worker replied {reply:?} before it was ready"),
    }
}

/// Waits until the window is over.
fn get_done(worker: &mut Dialogue) -> Result<Done> {
    match worker.receive(PATIENCE)? {
        Reply::Done(done) => done.checked(),
        reply => bail!("a worker replied {reply:?} at the end of a window"),
    }
}
