//! The worker process: runs one workload on one allocator, round by round as the parent requests.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use super::probe::{Each, PartLatency, PartTime, Whole};
use super::subject::{Stage, Stop, Touch};
use super::subjects::Implementation;
use super::workloads::{self, Kind, Script, Workload};
use heapwright_host::child::{self, Job};
use heapwright_host::identity::origin_of_malloc;

/// The job of a worker process.
pub const JOB: Job = Job { name: "bench", perform: |task| serve(&child::parse_task(task)?) };

/// What a worker measures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The workload, as in `steady/1000`.
    pub workload: Workload,
    /// The allocator, as in `engine/first`.
    pub implementation: Implementation,
    /// Limit of processor time for the preparation and for each round, in milliseconds.
    pub patience: u64,
    /// Whether it writes to every block.
    pub touched: bool,
}

/// A request of the parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// A round, timed as a whole.
    Round,
    /// A round in which every operation is timed.
    Latency,
}

/// A reply of the worker: first whether it is ready, then one reply per request.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The heap is prepared.
    Ready {
        /// The library that provides malloc in the worker.
        malloc: PathBuf,
    },
    /// The times of a round.
    Times(Vec<PartTime>),
    /// The latencies of a round.
    Latencies(Vec<PartLatency>),
    /// The workload stopped early, and why.
    Stopped(String),
}

/// Answers requests until standard input ends.
fn serve(task: &Task) -> Result<()> {
    let workload = task.workload;
    ensure!(workload.size > 0 || workload.kind.size_name().is_none(), "{workload} has no size");
    ensure!(!task.touched || task.implementation.has_memory(), "{} has no memory to touch", task.implementation);
    match workload.kind {
        Kind::Program000 => serve_script::<workloads::Program000>(task),
        Kind::Program001 => serve_script::<workloads::Program001>(task),
        Kind::Program004 => serve_script::<workloads::Program004>(task),
        Kind::Steady => serve_script::<workloads::Steady>(task),
        Kind::Comb => serve_script::<workloads::Comb>(task),
        Kind::Pair | Kind::Mapped => serve_script::<workloads::Pair>(task),
        Kind::BuddyFree => serve_script::<workloads::BuddyFree>(task),
    }
}

fn serve_script<S: Script>(task: &Task) -> Result<()> {
    let subject = task.implementation.build(task.workload.demand().0)?;
    let touch = if task.touched { Touch::Blocks } else { Touch::Nothing };
    let mut stage = Stage::new(subject, touch, Duration::from_millis(task.patience));
    let mut script = match S::settle(task.workload.size, &mut stage) {
        Ok(script) => script,
        Err(stop) => return child::reply(&Reply::Stopped(stop.to_string())),
    };
    child::reply(&Reply::Ready { malloc: origin_of_malloc() })?;
    for request in child::requests() {
        stage.renew_patience();
        let reply = answer(request?, task.workload.kind, &mut script, &mut stage)?;
        let stopped = matches!(reply, Reply::Stopped(_));
        child::reply(&reply)?;
        if stopped {
            break;
        }
    }
    // The heap ends with the process: freeing it block by block would only take time.
    std::process::exit(0)
}

fn answer<S: Script>(request: Request, kind: Kind, script: &mut S, stage: &mut Stage) -> Result<Reply> {
    let reply = match request {
        Request::Round => {
            let mut whole = Whole::calibrated();
            script.run(stage, &mut whole).map(|()| Reply::Times(whole.into_parts()))
        }
        Request::Latency => {
            let mut each = Each::of(kind.parts())?;
            script.run(stage, &mut each).map(|()| Reply::Latencies(each.into_parts()))
        }
    };
    Ok(reply.unwrap_or_else(|stop: Stop| Reply::Stopped(stop.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_survives_its_form_in_json() {
        for touched in [false, true] {
            let task = Task {
                workload: Workload { kind: Kind::Comb, size: 1000 },
                implementation: "engine/best".parse().unwrap(),
                patience: 1500,
                touched,
            };
            assert_eq!(child::parse_task::<Task>(&child::to_json(&task).unwrap()).unwrap(), task);
        }
    }
}
