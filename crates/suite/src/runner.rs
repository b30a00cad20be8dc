//! The parent's side of a worker process.

use std::time::Duration;

use anyhow::{Result, bail};

use super::contender::Contender;
use heapwright_host::child::Dialogue;
use heapwright_host::identity::ensure_preloaded;
use heapwright_workloads::probe::{PartLatency, PartTime};
use heapwright_workloads::subjects::Implementation;
use heapwright_workloads::worker::{JOB, Reply, Request, Task};

/// Time that a worker has to answer in addition to a multiple of its own limit, which is in processor time: on a busy
/// machine it gets little of that.
const GRACE: Duration = Duration::from_secs(60);

/// A worker process. It is killed when this is dropped.
pub struct Runner {
    child: Dialogue,
    patience: Duration,
}

impl Runner {
    /// Starts a worker and waits until its heap is prepared.
    ///
    /// # Errors
    /// When it cannot be started, is not ready in time, or does not run on the contender's malloc.
    pub fn start(contender: &Contender, task: &Task) -> Result<Runner> {
        let mut command = JOB.command_for(task)?;
        contender.allocator.apply(&mut command)?;
        let child = Dialogue::start(command)?;
        let mut runner = Runner { child, patience: Duration::from_millis(task.patience) };
        let Reply::Ready { malloc } = runner.next_reply()? else { bail!(OUT_OF_TURN) };
        if contender.implementation == Implementation::Malloc {
            ensure_preloaded(contender.allocator.library()?.as_deref(), &malloc)?;
        }
        Ok(runner)
    }

    /// Performs a round, timed as a whole.
    ///
    /// # Errors
    /// When the workload stopped or the worker failed.
    pub fn round(&mut self) -> Result<Vec<PartTime>> {
        match self.ask(Request::Round)? {
            Reply::Times(times) => Ok(times),
            _ => bail!(OUT_OF_TURN),
        }
    }

    /// Performs a round in which every operation is timed.
    ///
    /// # Errors
    /// As [`Runner::round`].
    pub fn latency(&mut self) -> Result<Vec<PartLatency>> {
        match self.ask(Request::Latency)? {
            Reply::Latencies(latencies) => Ok(latencies),
            _ => bail!(OUT_OF_TURN),
        }
    }

    fn ask(&mut self, request: Request) -> Result<Reply> {
        self.child.send(&request)?;
        self.next_reply()
    }

    fn next_reply(&mut self) -> Result<Reply> {
        match self.child.receive(self.patience * 4 + GRACE)? {
            Reply::Stopped(why) => bail!("{why}"),
            reply => Ok(reply),
        }
    }
}

/// The error for a reply that does not match the request.
const OUT_OF_TURN: &str = "the worker sent a reply that does not match the request";
