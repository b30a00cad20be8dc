//! The parent's end: several workers on one segment, for one window of time.

use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use heapwright_shared::{Place, SharedHeap};

use super::clock::{Clock, read};
use super::contender::Contender;
use super::task::{Load, Role, Task};
use super::worker::{COMMAND, Done, READY, Window};
use crate::allocator::Allocator;

/// How long a worker may take to answer, which it does in milliseconds on a machine that is not busy.
const PATIENCE: Duration = Duration::from_secs(30);

/// From the signal to the start: enough for all workers to have read it.
const NOTICE: u64 = 2_000_000;

/// A measurement: who, how many, what, for how long.
#[derive(Clone, Copy, Debug)]
pub struct Match<'c> {
    /// Whose heap.
    pub contender: &'c Contender,
    /// On how many processes.
    pub processes: usize,
    /// What each of them does.
    pub load: Load,
    /// The length of the segment, in bytes.
    pub bytes: usize,
    /// Nanoseconds before anything counts, and while it does.
    pub window: (u64, u64),
    /// The same requests for the same seed.
    pub seed: u64,
}

impl Match<'_> {
    /// Makes a new segment, has the workers work on it, and returns the nanoseconds of an operation: processor time for
    /// one process; for several the time that passes, by all operations that they do in it together.
    ///
    /// # Errors
    /// A worker cannot be started, fails, or does not answer.
    pub fn play(&self) -> Result<f64> {
        let segment = Name(format!("heapwright-bench-{}", std::process::id()));
        let mut team = vec![self.start(&segment.0, 0)?];
        team[0].get_ready()?;
        for member in 1..self.processes {
            team.push(self.start(&segment.0, member)?);
        }
        team[1..].iter_mut().try_for_each(Worker::get_ready)?;
        drop(segment);
        let start = read(Clock::Wall) + NOTICE;
        let window = Window { start, begin: start + self.window.0, end: start + self.window.0 + self.window.1 };
        team.iter_mut().for_each(|worker| worker.tell(window));
        let done: Vec<Done> = team.iter_mut().map(Worker::get_done).collect::<Result<_>>()?;
        // Workers that wait, for the lock or for a processor, do less in the same time; one alone never waits for the lock.
        let time = if let [alone] = done[..] { alone.busy } else { self.window.1 };
        Ok(time as f64 / (2 * done.iter().map(|done| done.pairs).sum::<u64>()) as f64)
    }

    /// Starts a worker; the first of them makes the segment.
    fn start(&self, segment: &str, member: usize) -> Result<Worker> {
        let mut command = match &self.contender.program {
            Some(program) => Command::new(program),
            None => {
                let mut command = Command::new(env::current_exe().context("cannot find this command's own file")?);
                command.arg(COMMAND);
                command
            }
        };
        let task = Task {
            allocator: self.contender.allocator.to_owned(),
            name: segment.to_owned(),
            bytes: self.bytes,
            role: if member == 0 { Role::Create } else { Role::Join },
            load: self.load,
            seed: self.seed << 8 | member as u64,
        };
        command.args(task.to_arguments());
        Allocator::System.apply(&mut command)?;
        Worker::start(command)
    }
}

/// The name of a segment, removed when this is dropped. Whoever is attached keeps the segment.
struct Name(String);

impl Drop for Name {
    fn drop(&mut self) {
        if let Ok(place) = Place::new(&self.0) {
            // It is not there for a malloc, nor when the worker that was to make it failed.
            let _ = SharedHeap::unlink(&place);
        }
    }
}

/// A process that works; it ends when this is dropped.
struct Worker {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Worker {
    fn start(mut command: Command) -> Result<Worker> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot start a worker")?;
        let input = child.stdin.take().context("no standard input")?;
        let output = child.stdout.take().context("no standard output")?;
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            // The listener is gone when the worker is no longer of interest.
            BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Ok(Worker { child, input, lines })
    }

    /// Waits until its heap is in its state.
    fn get_ready(&mut self) -> Result<()> {
        let word = self.next_line()?;
        ensure!(word == READY, "a worker said {word:?} instead of {READY:?}");
        Ok(())
    }

    fn get_done(&mut self) -> Result<Done> {
        let line = self.next_line()?;
        Done::parse(&line).with_context(|| format!("a worker said {line:?}"))
    }

    fn tell(&mut self, window: Window) {
        // A worker that is gone does not hear it; why it went is found out by waiting for its answer.
        let _ = writeln!(self.input, "{}", window.to_line());
    }

    fn next_line(&mut self) -> Result<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Timeout) => bail!("did not answer within {} s", PATIENCE.as_secs()),
            Err(RecvTimeoutError::Disconnected) => bail!("{}", self.last_words()?),
        }
    }

    /// How the worker ended, and what it complained about.
    fn last_words(&mut self) -> Result<String> {
        self.child.kill()?;
        let status = self.child.wait()?;
        let mut complaint = String::new();
        if let Some(mut stream) = self.child.stderr.take() {
            // What cannot be read cannot be reported; the status says enough.
            let _ = stream.by_ref().take(4096).read_to_string(&mut complaint);
        }
        Ok(format!("failed ({status}) {}", complaint.lines().next().unwrap_or_default()).trim_end().to_owned())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Either it has ended already, or it ends now.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
