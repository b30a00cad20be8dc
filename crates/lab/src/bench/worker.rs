//! The child process that measures: one allocator, one workload, one command on standard input after the other.

use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::probe::{Each, PartLatency, PartTime, Whole};
use super::subject::{Stage, Stop, Touch};
use super::subjects::Implementation;
use super::workloads::{self, Kind, Script, Workload};
use crate::child::origin_of_malloc;

/// The hidden command under which the child is started.
pub const COMMAND: &str = "bench-child";

/// What the child is to be; written and read as command-line arguments.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct Task {
    /// The workload, as in `steady/1000`.
    pub workload: Workload,
    /// The allocator, as in `engine/first`.
    pub implementation: Implementation,
    /// How long preparation and each round may take, in milliseconds.
    pub patience: u64,
    /// Write to every block.
    #[arg(long)]
    pub touched: bool,
}

impl Task {
    /// The arguments that give this task.
    pub fn to_arguments(&self) -> Vec<String> {
        let mut arguments = vec![self.workload.to_string(), self.implementation.to_string(), self.patience.to_string()];
        if self.touched {
            arguments.push("--touched".to_owned());
        }
        arguments
    }
}

/// What the parent asks for, a line each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// A round, timed as a whole.
    Round,
    /// A round in which every operation is timed.
    Latency,
}

/// What the child answers, a line each: first whether it is ready, then one line per request.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The heap is in its state. `malloc` is the library that this process' malloc comes from.
    Ready { malloc: PathBuf },
    /// What a round took.
    Times(Vec<PartTime>),
    /// What the operations of a round took.
    Latencies(Vec<PartLatency>),
    /// The workload could not go on, and why.
    Stopped(String),
}

/// Measures as asked until standard input ends.
pub fn serve(task: &Task) -> Result<()> {
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
        Err(stop) => return say(&Reply::Stopped(stop.to_string())),
    };
    say(&Reply::Ready { malloc: origin_of_malloc() })?;
    for line in io::stdin().lock().lines() {
        let request = serde_json::from_str(&line?).context("not a request")?;
        stage.renew_patience();
        let reply = answer(request, task.workload.kind, &mut script, &mut stage)?;
        let stopped = matches!(reply, Reply::Stopped(_));
        say(&reply)?;
        if stopped {
            break;
        }
    }
    // The heap goes with the process; to take it down block by block would only cost time.
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

fn say(reply: &Reply) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(reply)?)?;
    out.flush().context("nobody listens")
}

/// The reply that a line holds; a child that says anything else has failed.
pub fn parse_reply(line: &str) -> Result<Reply> {
    match serde_json::from_str(line) {
        Ok(reply) => Ok(reply),
        Err(_) => bail!("the measuring child answered out of turn: {line:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        task: Task,
    }

    #[test]
    fn a_task_survives_the_command_line() {
        for touched in [false, true] {
            let task = Task {
                workload: "comb/1000".parse().unwrap(),
                implementation: "engine/best".parse().unwrap(),
                patience: 1500,
                touched,
            };
            let line = Line::parse_from(["x".to_owned()].into_iter().chain(task.to_arguments()));
            assert_eq!(line.task, task);
        }
    }
}
