//! `heapwright replay --real`: replays a trace with every allocator in turn and prints a table.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Args;
use heapwright_host::names::Shown;
use serde::Serialize;

use heapwright_allocators::allocator::{self, Allocator};
use heapwright_allocators::peers::Peer;
use heapwright_allocators::rules::{self, ChosenRules};
use heapwright_real::{Latencies, Latency, Payload, Run, Script, Settings, Threads, ensure_room, run};
use heapwright_show::number;
use heapwright_show::output::warn_of_part;
use heapwright_show::progress::Progress;
use heapwright_show::results;
use heapwright_show::table::Table;

/// Recorded and replayed memory may differ by this share before it is explained.
const FIDELITY: f64 = 0.05;

/// The arguments of `heapwright replay` for real allocators.
#[derive(Args)]
#[group(skip)]
pub struct Arguments {
    /// Replay with real allocators, each in a process of its own: the policies, the system's malloc and all other
    /// mallocs found on this machine.
    #[arg(long)]
    pub real: bool,

    /// Another allocator: a name and its library. Can be repeated.
    #[arg(long, value_name = "NAME=PATH", value_parser = Peer::parse, requires = "real")]
    pub allocator: Vec<Peer>,

    /// What is written to blocks, and checked when they are resized and freed.
    #[arg(long, value_name = "WHAT", default_value = "touch", requires = "real")]
    pub payload: Payload,

    /// Time every call and print percentiles.
    #[arg(long, requires = "real")]
    pub latencies: bool,

    /// Make all calls in one thread, in recorded order, instead of in as many threads as were recorded.
    #[arg(long, requires = "real")]
    pub one_thread: bool,

    /// The default: as many threads as were recorded.
    #[arg(long, hide = true, requires = "real", conflicts_with = "one_thread")]
    pub threads: bool,
}

impl Arguments {
    /// Replays the trace and prints the results.
    pub fn run(&self, trace: &Path, policies: &[String], rules: &ChosenRules, json: bool) -> Result<ExitCode> {
        let settings = Settings {
            payload: self.payload,
            threads: if self.one_thread { Threads::One } else { Threads::AsRecorded },
            latencies: if self.latencies { Latencies::On } else { Latencies::Off },
        };
        let allocators = self.allocators(policies, rules)?;
        replay(&Request { trace, allocators: &allocators, named: &self.allocator, settings, json })
    }

    /// Returns the allocators to replay on: of the policies those of these names, if any are named, under the rules if
    /// any are named.
    fn allocators(&self, policies: &[String], rules: &ChosenRules) -> Result<Vec<Allocator>> {
        let mut all = allocator::all(&self.allocator);
        // Its blocks overlap, so a full payload cannot be checked.
        all.retain(|allocator| *allocator != Allocator::NoOp || self.payload != Payload::Full);
        let Some(set) = rules.of_programs else {
            let is_wanted = |policy: &str| policies.is_empty() || policies.iter().any(|name| name == policy);
            all.retain(|allocator| !matches!(allocator, Allocator::Heapwright(policy) if !is_wanted(policy)));
            return Ok(all);
        };
        rules::refuse_odd(&set)?;
        all.retain(|allocator| !matches!(allocator, Allocator::Heapwright(_)));
        let ruled = rules::policies(&set, policies)?.into_iter().map(|policy| Allocator::Ruled(policy.name(), set));
        all.extend(ruled);
        Ok(all)
    }
}

/// What is replayed, and how.
struct Request<'a> {
    trace: &'a Path,
    allocators: &'a [Allocator],
    /// Those that were named by their libraries: if one cannot be measured, the command fails.
    named: &'a [Peer],
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
    /// Peak of the bytes that glibc had from the system in the recorded run.
    recorded_system_peak: Option<u64>,
    /// Why only a part of the trace was replayed.
    damage: Option<String>,
    #[serde(flatten)]
    run: Option<Run>,
    /// Why the measurement failed.
    error: Option<String>,
}

/// Replays the trace and prints the results.
fn replay(request: &Request<'_>) -> Result<ExitCode> {
    let script = Script::compile(request.trace)?;
    warn_of_part(request.trace, script.damage(), script.incomplete());
    ensure_room(&script, &request.settings).with_context(|| request.trace.shown().into_owned())?;
    let progress = Progress::new("replay", request.allocators.len() + 1);
    let mut rows = Vec::new();
    for allocator in request.allocators {
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
    let is_named = |row: &Row| request.named.iter().any(|peer| peer.name == row.allocator);
    let unusable: Vec<&str> =
        rows.iter().filter(|row| row.run.is_none() && is_named(row)).map(|row| row.allocator.as_str()).collect();
    ensure!(unusable.is_empty(), "{} could not be measured", unusable.join(" and "));
    Ok(ExitCode::SUCCESS)
}

impl Row {
    fn of(script: &Script, allocator: &Allocator, settings: &Settings) -> Row {
        let (run, error) = match run(script, allocator, settings) {
            Ok(run) => (Some(run), None),
            Err(error) => (None, Some(format!("{error:#}"))),
        };
        Row {
            allocator: allocator.name().to_owned(),
            events: script.calls(),
            operations: script.operations(),
            blocks: script.blocks(),
            threads: script.threads(),
            left_out: script.left_out(),
            peak_requested: script.peak_requested(),
            recorded_system_peak: script.recorded_peak(),
            damage: script.damage().map(ToString::to_string),
            run,
            error,
        }
    }
}

/// The peak of the memory that glibc's malloc had from the system, in the recorded run and in its replay.
struct Fidelity {
    recorded: u64,
    replayed: u64,
}

impl Fidelity {
    /// Returns `None` when the trace does not contain the peak, or it cannot be measured here.
    fn of(script: &Script, settings: &Settings) -> Option<Fidelity> {
        let recorded = script.recorded_peak()?;
        let timed = Settings { latencies: Latencies::On, ..*settings };
        let replayed = run(script, &Allocator::System, &timed).ok()?.system_peak?;
        Some(Fidelity { recorded, replayed })
    }

    fn difference(&self) -> f64 {
        self.replayed as f64 / self.recorded.max(1) as f64 - 1.0
    }
}

fn print(script: &Script, rows: &[Row], fidelity: Option<Fidelity>) {
    heapwright_show::print!("{}", times(script, rows));
    if rows.iter().any(|row| row.run.as_ref().is_some_and(|run| run.latency.is_some())) {
        heapwright_show::print!("\n{}", latencies(rows));
    }
    heapwright_show::println!(
        "\n{}, {}; at most {} requested at one time. RSS is that of the heap alone; no-op is the cost \
         of the replay itself.",
        number::counted(script.calls(), "event"),
        number::counted(script.operations(), "call"),
        number::bytes(script.peak_requested())
    );
    if script.left_out() > 0 {
        let left_out = number::counted(script.left_out(), "event");
        heapwright_show::println!("Left out, because their blocks are not live: {left_out}.");
    }
    if let Some(fidelity) = fidelity {
        print_fidelity(&fidelity);
    }
    // Each names the allocator.
    rows.iter().filter_map(|row| row.error.as_ref()).for_each(|error| heapwright_show::println!("{error}"));
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
    heapwright_show::println!(
        "Fidelity: glibc had at most {} from the system when this was recorded, and {} in the replay ({:+.1} %).",
        number::bytes(fidelity.recorded),
        number::bytes(fidelity.replayed),
        100.0 * fidelity.difference()
    );
    if fidelity.difference().abs() > FIDELITY {
        heapwright_show::println!(
            "They differ by more than {:.0} %: see docs/replay.md, \"How true a replay is\", for what a replay leaves \
             out.",
            100.0 * FIDELITY
        );
    }
}
