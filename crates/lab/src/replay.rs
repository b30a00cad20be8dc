//! `heapwright replay`: simulates a recorded program's heap under each policy.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;
use clap::builder::PossibleValuesParser;
use heapwright_replay::{Outcome, replay};
use heapwright_simulate::choice::{HeapArguments, open};
use serde::Serialize;

use heapwright_allocators::policy;
use heapwright_host::files::ensure_rereadable;
use heapwright_host::names::Shown;
use heapwright_show::number;
use heapwright_show::output::warn_of_part;
use heapwright_show::progress::Progress;
use heapwright_show::results;
use heapwright_show::table::Table;
use heapwright_show::terminal;

/// The examples at the end of the help text.
pub const EXAMPLES: &str = "\
Examples:
  heapwright replay gcc.hwt                         every policy
  heapwright replay gcc.hwt -p first,best           two of them
  heapwright replay gcc.hwt --rules report000       under the rules of a published allocator (docs/policies.md)
  heapwright replay gcc.hwt --merging deferred      by the slow reference engine, which has every rule
  heapwright replay gcc.hwt --granule 8 --json      other rules, for a program to read
  heapwright replay gcc.hwt --region 16777216       in a fixed region of 16 MiB

Nothing is allocated: blocks are placed in an address space of their own, which may be far longer than this
machine's memory.

A damaged trace is replayed up to the damage.

Exit code: 0, or 1 when the trace cannot be read.";

/// Arguments of `replay`.
#[derive(Args)]
pub struct Arguments {
    /// The trace, as written by `heapwright record` or `heapwright import`.
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,

    /// Policies, separated by commas; may be given several times. All of them if none is given.
    #[arg(long, short, value_name = "POLICIES", value_delimiter = ',',
          value_parser = PossibleValuesParser::new(policy::values()))]
    pub policy: Vec<String>,

    #[command(flatten)]
    pub heap: HeapArguments,

    #[command(flatten)]
    pub real: super::real::Arguments,

    /// Print one JSON object: {"schema": 1, "results": [ ... ]}, a row per policy or allocator.
    #[arg(long)]
    pub json: bool,
}

/// The outcome of a replay, and the time that it took.
#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    outcome: Outcome,
    seconds: f64,
    /// The engine that placed the blocks: `fast` or `reference`.
    engine: &'static str,
    /// Why the reference engine did.
    because: Option<&'static str>,
    /// Why only a part of the trace was replayed.
    damage: Option<String>,
}

/// Replays a trace and prints the outcome.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    if arguments.real.real {
        let rules = arguments.heap.rules.chosen()?;
        return arguments.real.run(&arguments.trace, &arguments.policy, &rules, arguments.json);
    }
    let models = arguments.heap.models(&arguments.policy)?;
    if models.len() > 1 {
        ensure_rereadable(&arguments.trace)?;
    }
    let progress = Progress::new("replay", models.len());
    let mut rows = Vec::new();
    for model in models {
        let policy = model.policy;
        progress.at(policy.name());
        let mut trace = open(&arguments.trace)?;
        let start = Instant::now();
        let outcome = replay(&mut trace, &model)
            .with_context(|| format!("{} under {}", arguments.trace.shown(), policy.name()))?;
        let seconds = start.elapsed().as_secs_f64();
        if rows.is_empty() {
            warn_of_part(&arguments.trace, trace.damage(), trace.about().incomplete());
        }
        let (engine, because) = (model.engine_name(), model.odd_reason());
        rows.push(Row { outcome, seconds, engine, because, damage: trace.damage().map(ToString::to_string) });
        progress.step();
    }
    drop(progress);
    if arguments.json {
        results::print(&rows)?;
    } else {
        print(&rows);
    }
    Ok(ExitCode::SUCCESS)
}

fn print(rows: &[Row]) {
    let headings =
        ["policy", "peak heap", "peak heap / peak asked", "external", "holes", "splits", "coalesces", "moved", "ops/s"];
    let mut table = Table::new(headings);
    for Row { outcome, seconds, .. } in rows {
        table.row([
            outcome.policy.name().to_owned(),
            number::bytes(outcome.peak_heap),
            outcome.peak_over_requested().map_or("-".to_owned(), |ratio| format!("{ratio:.3}")),
            outcome.external_fragmentation.map_or("-".to_owned(), |share| format!("{:.1} %", 100.0 * share)),
            number::grouped(outcome.holes),
            number::grouped(outcome.splits),
            number::grouped(outcome.coalesces),
            number::grouped(outcome.moved),
            number::short(outcome.events as f64 / seconds / 1e6) + " M",
        ]);
    }
    heapwright_show::print!("{table}");
    if let Some(Row { outcome, .. }) = rows.first() {
        let text = format!(
            "{}; at most {} requested at one time. External fragmentation and holes are those at the end.",
            number::counted(outcome.events, "event"),
            number::bytes(outcome.peak_requested)
        );
        heapwright_show::println!("\n{}", terminal::fitted(&text));
    }
    for Row { outcome, because, .. } in rows {
        if let Some(reason) = because {
            let text = format!("{}: reference engine, because {reason}", outcome.policy.name());
            heapwright_show::println!("{}", terminal::fitted(&text));
        }
    }
    for Row { outcome, .. } in rows.iter().filter(|row| row.outcome.refused + row.outcome.unknown > 0) {
        let text = format!(
            "{}: requests that failed: {}; frees of blocks that are not live: {}",
            outcome.policy.name(),
            number::grouped(outcome.refused),
            number::grouped(outcome.unknown)
        );
        heapwright_show::println!("{}", terminal::fitted(&text));
    }
}
