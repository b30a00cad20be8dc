//! `heapwright replay`: what would have become of a recorded program's heap under each policy?

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use clap::builder::PossibleValuesParser;
use heapwright_placement::{Growth, PolicyKind, Rules};
use heapwright_replay::{Model, Outcome, replay};
use heapwright_trace::Reader;
use serde::Serialize;

use crate::number;
use crate::policy;
use crate::progress::Progress;
use crate::results;
use crate::table::Table;

pub const EXAMPLES: &str = "\
Examples:
  heapwright replay gcc.hwt                         every policy
  heapwright replay gcc.hwt -p first -p best        two of them
  heapwright replay gcc.hwt --granule 8 --json      other rules, for a program to read
  heapwright replay gcc.hwt --region 16777216       in a fixed region of 16 MiB

Nothing is allocated: blocks are placed in an address space of their own, which may be far longer than this
machine's memory.

Exit code: 0, or 1 when the trace is damaged or cannot be read.";

/// What `replay` may be told.
#[derive(Args)]
pub struct Arguments {
    /// The trace, as written by `heapwright record` or `heapwright import`.
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,

    /// A policy; may be given several times. All of them if none is given.
    #[arg(long, short, value_name = "POLICY", value_parser = PossibleValuesParser::new(policy::values()))]
    pub policy: Vec<String>,

    #[command(flatten)]
    pub rules: RuleArguments,

    #[command(flatten)]
    pub real: crate::real::command::Arguments,

    /// Print one JSON object: {"schema": 1, "results": [ ... ]}, a row per policy or allocator.
    #[arg(long)]
    pub json: bool,
}

/// The rules of a simulated heap.
#[derive(Args, Clone, Debug)]
pub struct RuleArguments {
    /// The smallest unit of placement, in bytes: a power of two from 1 to 4096.
    #[arg(long, value_name = "BYTES", default_value_t = 16)]
    pub granule: u32,

    /// Bytes that every block loses in front of its payload.
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub header: u32,

    /// A remainder shorter than this stays with the block.
    #[arg(long, value_name = "BYTES", default_value_t = 1)]
    pub min_remainder: u32,

    /// A fixed region of so many bytes, in which requests may find no place, instead of a heap that grows.
    #[arg(long, value_name = "BYTES")]
    pub region: Option<usize>,

    /// The seed of random fit.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

impl RuleArguments {
    /// The heap that these rules describe, under `policy`.
    pub fn model(&self, policy: PolicyKind) -> Model {
        let rules = Rules {
            granule: self.granule,
            header: self.header,
            min_remainder: self.min_remainder,
            growth: if self.region.is_some() { Growth::Fixed } else { Growth::Extend },
            ..Rules::default()
        };
        let usual = Model { seed: self.seed, ..Model::with(policy, rules) };
        Model { capacity: self.region.unwrap_or(usual.capacity), ..usual }
    }
}

/// A replay and the time that it took.
#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    outcome: Outcome,
    seconds: f64,
}

/// Replays a trace and prints what came of it.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    if arguments.real.real {
        return arguments.real.run(&arguments.trace, &arguments.policy, arguments.json);
    }
    let is_mapped = |name: &String| name == policy::MAPPED;
    ensure!(!arguments.policy.iter().any(is_mapped), "mapped places nothing, so it is not simulated: add --real");
    let policies = chosen(&arguments.policy);
    let progress = Progress::new("replay", policies.len());
    let mut rows = Vec::new();
    for policy in policies {
        progress.at(policy.name());
        let mut trace = open(&arguments.trace)?;
        let start = Instant::now();
        let outcome = replay(&mut trace, &arguments.rules.model(policy))
            .with_context(|| format!("{} under {}", arguments.trace.display(), policy.name()))?;
        rows.push(Row { outcome, seconds: start.elapsed().as_secs_f64() });
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

/// The policies of these names; all of them when none is named.
pub fn chosen(names: &[String]) -> Vec<PolicyKind> {
    let chosen: Vec<PolicyKind> = names.iter().filter_map(|name| PolicyKind::from_name(name)).collect();
    if chosen.is_empty() { PolicyKind::ALL.to_vec() } else { chosen }
}

/// Begins to read a trace.
pub fn open(path: &Path) -> Result<Reader<BufReader<File>>> {
    let file = File::open(path).with_context(|| format!("{} cannot be opened", path.display()))?;
    Reader::new(BufReader::new(file)).with_context(|| path.display().to_string())
}

fn print(rows: &[Row]) {
    let headings =
        ["policy", "peak heap", "peak heap / peak asked", "external", "holes", "splits", "coalesces", "moved", "ops/s"];
    let mut table = Table::new(headings);
    for Row { outcome, seconds } in rows {
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
    anstream::print!("{table}");
    if let Some(Row { outcome, .. }) = rows.first() {
        anstream::println!(
            "\n{} events; at most {} asked for at one time. External fragmentation and holes are those at the end.",
            number::grouped(outcome.events),
            number::bytes(outcome.peak_requested)
        );
    }
    for Row { outcome, .. } in rows.iter().filter(|row| row.outcome.refused + row.outcome.unknown > 0) {
        anstream::println!(
            "{}: {} requests found no place, {} frees were of blocks that do not live",
            outcome.policy.name(),
            number::grouped(outcome.refused),
            number::grouped(outcome.unknown)
        );
    }
}
