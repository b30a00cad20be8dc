//! The parent's end of a measuring child.

use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::contender::Contender;
use super::probe::{PartLatency, PartTime};
use super::subjects::Implementation;
use super::worker::{self, Reply, Request, Task};
use crate::child::is_same_file;

/// How long a child may take to answer, beyond its own patience many times over: that is processor time, of which it may
/// not get much.
const GRACE: Duration = Duration::from_secs(60);

/// A measuring child; it ends when this is dropped.
pub struct Runner {
    child: Child,
    requests: ChildStdin,
    replies: Receiver<String>,
    patience: Duration,
}

impl Runner {
    /// Starts a child and waits until its heap is in the state to be measured.
    ///
    /// # Errors
    /// When it cannot be started, does not get there in time, or does not run on the malloc it was meant to run on.
    pub fn start(contender: &Contender, task: &Task) -> Result<Runner> {
        let mut command = Command::new(env::current_exe().context("cannot find this command's own file")?);
        command.arg(worker::COMMAND).args(task.to_arguments());
        contender.allocator.apply(&mut command)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot start a measuring child")?;
        let requests = child.stdin.take().context("no standard input")?;
        let output = child.stdout.take().context("no standard output")?;
        let (sender, replies) = mpsc::channel();
        thread::spawn(move || {
            // The listener is gone when the child is no longer of interest.
            BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let mut runner = Runner { child, requests, replies, patience: Duration::from_millis(task.patience) };
        runner.confirm(contender)?;
        Ok(runner)
    }

    /// Waits for the child, and checks that what it measures is what it was started for: the dynamic linker goes on
    /// without a library that it cannot load.
    fn confirm(&mut self, contender: &Contender) -> Result<()> {
        let Reply::Ready { malloc } = self.next_reply()? else { bail!("the measuring child answered out of turn") };
        if contender.implementation == Implementation::Malloc
            && let Some(library) = contender.allocator.library()?
        {
            ensure!(is_same_file(&malloc, &library), "was not loaded: malloc came from {}", malloc.display());
        }
        Ok(())
    }

    /// One round, timed as a whole.
    ///
    /// # Errors
    /// When the workload stopped or the child failed.
    pub fn round(&mut self) -> Result<Vec<PartTime>> {
        match self.ask(Request::Round)? {
            Reply::Times(times) => Ok(times),
            _ => bail!("the measuring child answered out of turn"),
        }
    }

    /// One round in which every operation is timed.
    ///
    /// # Errors
    /// As [`Runner::round`].
    pub fn latency(&mut self) -> Result<Vec<PartLatency>> {
        match self.ask(Request::Latency)? {
            Reply::Latencies(latencies) => Ok(latencies),
            _ => bail!("the measuring child answered out of turn"),
        }
    }

    fn ask(&mut self, request: Request) -> Result<Reply> {
        // A child that is gone does not take the request; why it went is found out by waiting for its reply.
        let _ = writeln!(self.requests, "{}", serde_json::to_string(&request)?);
        self.next_reply()
    }

    fn next_reply(&mut self) -> Result<Reply> {
        match self.replies.recv_timeout(self.patience * 4 + GRACE) {
            Ok(line) => match worker::parse_reply(&line)? {
                Reply::Stopped(why) => bail!("{why}"),
                reply => Ok(reply),
            },
            Err(RecvTimeoutError::Timeout) => bail!("did not answer in time"),
            Err(RecvTimeoutError::Disconnected) => bail!("{}", self.last_words()?),
        }
    }

    /// How the child ended, and what it complained about.
    fn last_words(&mut self) -> Result<String> {
        self.child.kill()?;
        let status = self.child.wait()?;
        let mut complaint = String::new();
        if let Some(mut stream) = self.child.stderr.take() {
            // What cannot be read cannot be reported; the status says enough.
            let _ = stream.by_ref().take(4096).read_to_string(&mut complaint);
        }
        let complaint = complaint.lines().next().unwrap_or_default();
        Ok(format!("failed ({status}) {complaint}").trim_end().to_owned())
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        // Either it has ended already, or it ends now.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
