//! `heapwright replay --real`: every allocator in its turn, and a table.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Args;
use serde::Serialize;

use super::{Latencies, Latency, Payload, Run, Script, Settings, Threads, run};
use crate::allocator::{self, Allocator};
use crate::number;
use crate::peers::Peer;
use crate::progress::Progress;
use crate::results;
use crate::table::Table;

/// Recorded and replayed memory may differ by this share before it is explained.
const FIDELITY: f64 = 0.05;

/// What `replay` may be told about real replay.
#[derive(Args)]
#[group(skip)]
pub struct Arguments {
    /// Make the calls of real allocators, each in a process of its own: the policies, the system's malloc and all that
    /// are found.
    #[arg(long)]
    pub real: bool,

    /// Another allocator: a name for it and its library. May be given several times.
    #[arg(long, value_name = "NAME=PATH", value_parser = Peer::parse, requires = "real")]
    pub allocator: Vec<Peer>,

    /// What is written to blocks and looked at when they are resized and freed.
    #[arg(long, value_name = "WHAT", default_value = "touch", requires = "real")]
    pub payload: Payload,

    /// Time every call by itself.
    #[arg(long, requires = "real")]
    pub latencies: bool,

    /// Make the calls in as many threads as were recorded, each its own.
    #[arg(long, requires = "real")]
    pub threads: bool,
}

impl Arguments {
    /// Replays and prints.
    pub fn run(&self, trace: &Path, policies: &[String], json: bool) -> Result<ExitCode> {
        let settings = Settings {
            payload: self.payload,
            threads: if self.threads { Threads::Faithful } else { Threads::TotalOrder },
            latencies: if self.latencies { Latencies::On } else { Latencies::Off },
        };
        replay(&Request { trace, policies, given: &self.allocator, settings, json })
    }
}

/// What is asked for.
struct Request<'a> {
    trace: &'a Path,
    /// Policies by name; empty for all.
    policies: &'a [String],
    given: &'a [Peer],
    settings: Settings,
    json: bool,
}

/// An allocator's row.
#[derive(Serialize)]
struct Row {
    allocator: String,
    events: u64,
    operations: u64,
    blocks: u64,
    threads: u64,
    left_out: u64,
    peak_requested: u64,
    /// The most that glibc had from the system in the run that was recorded.
    recorded_system_peak: Option<u64>,
    #[serde(flatten)]
    run: Option<Run>,
    /// Why there are no figures.
    error: Option<String>,
}

/// Replays and prints.
fn replay(request: &Request<'_>) -> Result<ExitCode> {
    let script = Script::compile(request.trace)?;
    let allocators: Vec<Allocator> =
        allocator::all(request.given).into_iter().filter(|allocator| request.wants(allocator)).collect();
    let progress = Progress::new("replay", allocators.len() + 1);
    let mut rows = Vec::new();
    for allocator in &allocators {
        progress.at(allocator.name());
        rows.push(Row::of(&script, allocator, &request.settings));
        progress.step();
    }
    let fidelity = Fidelity::of(&script, &request.settings);
    drop(progress);
    if request.json {
        results::print(&rows)?;
    } else {
        print(&script, &rows, fidelity);
    }
    ensure!(rows.iter().any(|row| row.run.is_some()), "no allocator could be measured");
    Ok(ExitCode::SUCCESS)
}

impl Request<'_> {
    fn wants(&self, allocator: &Allocator) -> bool {
        match allocator {
            Allocator::Heapwright(policy) => {
                self.policies.is_empty() || self.policies.iter().any(|name| name == policy)
            }
            // Nobody's blocks lie over one another, so that there is nothing to look at.
            Allocator::NoOp => self.settings.payload != Payload::Full,
            _ => true,
        }
    }
}

impl Row {
    fn of(script: &Script, allocator: &Allocator, settings: &Settings) -> Row {
        let (run, error) = match run(script, allocator, settings) {
            Ok(run) => (Some(run), None),
            Err(error) => (None, Some(format!("{error:#}"))),
        };
        Row {
            allocator: allocator.name().to_owned(),
            events: script.events(),
            operations: script.operations(),
            blocks: script.blocks(),
            threads: script.threads(),
            left_out: script.left_out(),
            peak_requested: script.peak_requested(),
            recorded_system_peak: script.recorded_peak(),
            run,
            error,
        }
    }
}

/// The memory that glibc's malloc had from the system, in the run that was recorded and in its replay.
struct Fidelity {
    recorded: u64,
    replayed: u64,
}

impl Fidelity {
    /// `None` when the trace does not tell, or it cannot be measured here.
    fn of(script: &Script, settings: &Settings) -> Option<Fidelity> {
        let recorded = script.recorded_peak()?;
        let watched = Settings { latencies: Latencies::On, ..*settings };
        let replayed = run(script, &Allocator::System, &watched).ok()?.system_peak?;
        Some(Fidelity { recorded, replayed })
    }

    fn difference(&self) -> f64 {
        self.replayed as f64 / self.recorded.max(1) as f64 - 1.0
    }
}

fn print(script: &Script, rows: &[Row], fidelity: Option<Fidelity>) {
    anstream::print!("{}", times(script, rows));
    if rows.iter().any(|row| row.run.as_ref().is_some_and(|run| run.latency.is_some())) {
        anstream::print!("\n{}", latencies(rows));
    }
    anstream::println!(
        "\n{} events, {} calls; at most {} asked for at one time. RSS is that of the heap alone; no-op is the cost of replaying.",
        number::grouped(script.events()),
        number::grouped(script.operations()),
        number::bytes(script.peak_requested())
    );
    if script.left_out() > 0 {
        let left_out = number::grouped(script.left_out());
        anstream::println!("{left_out} events are of blocks that do not live, and were left out.");
    }
    if let Some(fidelity) = fidelity {
        print_fidelity(&fidelity);
    }
    for row in rows {
        if let Some(error) = &row.error {
            anstream::println!("{}: {error}", row.allocator);
        }
    }
}

fn times(script: &Script, rows: &[Row]) -> Table {
    let mut table = Table::new([
        "allocator",
        "time",
        "CPU ns/call",
        "peak RSS",
        "peak RSS / asked",
        "average RSS",
        "faults",
        "refused",
    ]);
    for row in rows {
        let cell = |figure: &dyn Fn(&Run) -> String| row.run.as_ref().map_or("-".to_owned(), figure);
        let asked = script.peak_requested().max(1) as f64;
        table.row([
            row.allocator.clone(),
            cell(&|run| number::seconds(run.seconds)),
            cell(&|run| number::short(run.cpu_seconds * 1e9 / script.operations().max(1) as f64)),
            cell(&|run| number::bytes(run.peak_rss)),
            cell(&|run| format!("{:.3}", run.peak_rss as f64 / asked)),
            cell(&|run| number::bytes(run.average_rss)),
            cell(&|run| number::grouped(run.faults)),
            cell(&|run| number::grouped(run.refused)),
        ]);
    }
    table
}

fn latencies(rows: &[Row]) -> Table {
    let mut table = Table::new(["allocator", "calls", "p50", "p99", "p99.99", "max"]);
    for row in rows {
        let Some(run) = &row.run else { continue };
        for (calls, latency) in
            [("all", run.latency), ("allocate", run.allocations), ("resize", run.resizes), ("free", run.frees)]
        {
            let cell =
                |figure: fn(&Latency) -> f64| latency.map_or("-".to_owned(), |l| number::seconds(figure(&l) / 1e9));
            let name = if calls == "all" { row.allocator.as_str() } else { "" };
            table.row([
                name.to_owned(),
                calls.to_owned(),
                cell(|latency| latency.p50),
                cell(|latency| latency.p99),
                cell(|latency| latency.p9999),
                cell(|latency| latency.max),
            ]);
        }
    }
    table
}

fn print_fidelity(fidelity: &Fidelity) {
    anstream::println!(
        "Fidelity: glibc had at most {} from the system when this was recorded, and {} in the replay ({:+.1} %).",
        number::bytes(fidelity.recorded),
        number::bytes(fidelity.replayed),
        100.0 * fidelity.difference()
    );
    if fidelity.difference().abs() > FIDELITY {
        anstream::println!(
            "They differ by more than {:.0} %: see docs/replay.md, \"How true a replay is\", for what a replay leaves out.",
            100.0 * FIDELITY
        );
    }
}
