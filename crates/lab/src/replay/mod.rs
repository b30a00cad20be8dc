//! `heapwright replay`: what would have become of a recorded program's heap under each policy?

mod blocks;
mod simulate;

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use clap::builder::PossibleValuesParser;
use heapwright_placement::{Growth, PolicyKind, Rules};
use heapwright_trace::Reader;

use crate::number;
use crate::progress::Progress;
use crate::results;
use crate::table::Table;
use simulate::{Model, Outcome};

/// How far a simulated heap may grow unless told otherwise, in bytes: more than any machine has.
const CAPACITY: usize = 1 << 40;

pub const EXAMPLES: &str = "\
Examples:
  heapwright replay gcc.hwt                         every policy
  heapwright replay gcc.hwt -p first -p best        two of them
  heapwright replay gcc.hwt --granule 8 --json      other rules, for a program to read

Nothing is allocated: blocks are placed in an address space of their own, which may be far longer than this
machine's memory.

Exit code: 0, or 1 when the trace is damaged or cannot be read.";

/// What `replay` may be told.
#[derive(Args)]
pub struct Arguments {
    /// The trace, as written by `heapwright record`.
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,

    /// A policy; may be given several times. All of them if none is given.
    #[arg(long, short, value_name = "POLICY", value_parser = PossibleValuesParser::new(PolicyKind::ALL.map(PolicyKind::name)))]
    pub policy: Vec<String>,

    /// The smallest unit of placement, in bytes: a power of two from 1 to 4096.
    #[arg(long, value_name = "BYTES", default_value_t = 16)]
    pub granule: u32,

    /// Bytes that every block loses in front of its payload.
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub header: u32,

    /// A remainder shorter than this stays with the block.
    #[arg(long, value_name = "BYTES", default_value_t = 1)]
    pub min_remainder: u32,

    /// The seed of random fit.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Print one JSON object: {"schema": 1, "results": [ ... ]}, a row per policy.
    #[arg(long)]
    pub json: bool,
}

/// Replays a trace and prints what came of it.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let rules = Rules {
        granule: arguments.granule,
        header: arguments.header,
        min_remainder: arguments.min_remainder,
        growth: Growth::Extend,
        ..Rules::default()
    };
    rules.validate()?;
    let policies = chosen(&arguments.policy);
    let progress = Progress::new("replay", policies.len());
    let mut outcomes = Vec::new();
    for policy in policies {
        progress.at(policy.name());
        let model = Model { policy, rules, capacity: capacity(rules.granule), seed: arguments.seed };
        outcomes.push(simulate::replay(&mut open(arguments)?, &model)?);
        progress.step();
    }
    drop(progress);
    if arguments.json {
        results::print(&outcomes)?;
    } else {
        print(&outcomes);
    }
    Ok(ExitCode::SUCCESS)
}

fn chosen(names: &[String]) -> Vec<PolicyKind> {
    let chosen: Vec<PolicyKind> = names.iter().filter_map(|name| PolicyKind::from_name(name)).collect();
    if chosen.is_empty() { PolicyKind::ALL.to_vec() } else { chosen }
}

/// As much as the granule allows, up to [`CAPACITY`].
fn capacity(granule: u32) -> usize {
    CAPACITY.min(heapwright_placement::MAX_GRANULES * granule as usize)
}

fn open(arguments: &Arguments) -> Result<Reader<BufReader<File>>> {
    let path = &arguments.trace;
    let file = File::open(path).with_context(|| format!("{} cannot be opened", path.display()))?;
    Reader::new(BufReader::new(file)).with_context(|| path.display().to_string())
}

fn print(outcomes: &[Outcome]) {
    let mut table = Table::new([
        "policy",
        "peak heap",
        "peak heap / peak asked",
        "external",
        "holes",
        "splits",
        "coalesces",
        "moved",
        "ops/s",
    ]);
    for outcome in outcomes {
        let over = outcome.peak_heap as f64 / outcome.peak_requested.max(1) as f64;
        table.row([
            outcome.policy.name().to_owned(),
            number::bytes(outcome.peak_heap),
            format!("{over:.3}"),
            outcome.external_fragmentation.map_or("-".to_owned(), |share| format!("{:.1} %", 100.0 * share)),
            number::grouped(outcome.holes),
            number::grouped(outcome.splits),
            number::grouped(outcome.coalesces),
            number::grouped(outcome.moved),
            number::short(outcome.events as f64 / outcome.seconds / 1e6) + " M",
        ]);
    }
    anstream::print!("{table}");
    if let Some(first) = outcomes.first() {
        anstream::println!(
            "\n{} events; at most {} asked for at one time. External fragmentation and holes are those at the end.",
            number::grouped(first.events),
            number::bytes(first.peak_requested)
        );
    }
    for outcome in outcomes.iter().filter(|outcome| outcome.refused + outcome.unknown > 0) {
        anstream::println!(
            "{}: {} requests found no place, {} frees were of blocks that do not live",
            outcome.policy.name(),
            number::grouped(outcome.refused),
            number::grouped(outcome.unknown)
        );
    }
}
