//! `heapwright bench`: the built-in workloads, measured for the engine alone, for heaps in a fixed region, and for whole
//! mallocs.
//!
//! Everything is measured in child processes of this same command (`worker`), one per contender, whose rounds the
//! parent interleaves (`measure`). A child drives one allocator (`subjects`) through one workload (`workloads`), and
//! one `probe` either times the whole or every single operation of it.

mod bars;
pub mod clock;
mod contender;
pub mod lazy;
mod malloc;
mod measure;
pub mod memory;
mod numbers;
mod plan;
mod probe;
mod report;
mod runner;
pub mod shared;
mod subject;
mod subjects;
pub mod worker;
mod workloads;

use std::process::ExitCode;

use anyhow::Result;
use clap::CommandFactory;
use clap::builder::PossibleValuesParser;
use clap::error::ErrorKind;

pub use self::contender::SYSTEM_AGAIN;
use self::contender::{Field, Layer};
use self::measure::Case;
use self::plan::Extent;
use self::subjects::Crate;
use self::workloads::Kind;
use crate::cli::Cli;
use crate::progress::Progress;
use crate::{peers, policy, results};

/// Examples for the help.
pub const EXAMPLES: &str = "\
Examples:
  heapwright bench --quick                                 a first impression, in seconds
  heapwright bench steady pair --layers malloc             whole mallocs only
  heapwright bench comb --policies first,best --repeat 9   two policies, more rounds
  heapwright bench --allocators talc,mimalloc --json       for a program to read
  heapwright bench --bars                                  does the project keep what it promises?
  heapwright bench shared                                  several processes on one heap
  heapwright bench malloc                                  malloc libraries, as programs meet them

An operation is one allocate or one free; its time is processor time and contains the row `no-op`, which is what the
measuring itself takes. Latencies are read from a clock whose own cost is taken off. `system (A/A)` is the system's malloc
measured a second time: what differs there is noise.";

/// What may be typed after `heapwright bench`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Arguments {
    /// Something else to measure.
    #[command(subcommand)]
    other: Option<Other>,

    /// The workloads; all of them if none is named.
    #[arg(value_name = "WORKLOAD", value_enum)]
    workloads: Vec<Kind>,

    /// Other allocators to measure, by name (talc, rlsf, mimalloc…); all that there are if none is named.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    allocators: Option<Vec<String>>,

    /// Policies to measure.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = PossibleValuesParser::new(policy::names()))]
    policies: Vec<String>,

    /// Layers on which to measure.
    #[arg(long, value_name = "LAYERS", value_delimiter = ',', value_enum)]
    layers: Vec<Layer>,

    /// Rounds per measurement; the more, the less noise.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeat: Option<u16>,

    /// Small sizes and few rounds: less than 20 seconds.
    #[arg(long, conflicts_with = "full")]
    quick: bool,

    /// Every size for every allocator, written to and not: half an hour.
    #[arg(long)]
    full: bool,

    /// Measure what the project's bars are about, say for each whether it holds, and exit with 1 unless all do.
    #[arg(long, conflicts_with_all = ["quick", "full", "workloads", "policies", "layers", "allocators"])]
    bars: bool,

    /// Print one JSON object instead of tables.
    #[arg(long)]
    json: bool,
}

/// What is measured in a way of its own.
#[derive(Debug, clap::Subcommand)]
enum Other {
    /// Measure whole mallocs as a preloaded library meets programs: time and memory, in fresh processes.
    #[command(after_help = malloc::EXAMPLES)]
    Malloc(malloc::Arguments),
    /// Measure heaps that several processes share, beside Boost.Interprocess.
    #[command(after_help = shared::EXAMPLES)]
    Shared(shared::Arguments),
}

impl Arguments {
    fn extent(&self) -> Extent {
        match (self.quick, self.full) {
            (true, _) => Extent::Quick,
            (_, true) => Extent::Full,
            _ => Extent::Usual,
        }
    }

    fn kinds(&self) -> Vec<Kind> {
        if self.bars {
            return bars::KINDS.to_vec();
        }
        Kind::ALL.into_iter().filter(|kind| self.workloads.is_empty() || self.workloads.contains(kind)).collect()
    }

    /// Who takes part. A name that nobody has ends the command as any other mistyped argument does.
    fn field(&self) -> Field {
        let peers = peers::find();
        let known: Vec<&str> =
            Crate::ALL.map(Crate::name).into_iter().chain(peers.iter().map(|it| it.name.as_str())).collect();
        if let Some(name) = self.allocators.iter().flatten().find(|name| !known.contains(&name.as_str())) {
            let message = format!("there is no allocator {name:?} here; there are {}", known.join(", "));
            Cli::command().error(ErrorKind::InvalidValue, message).exit();
        }
        let named = |name: &&'static str| self.policies.iter().any(|other| other == name);
        let policies = match self.policies.is_empty() {
            true => self.extent().policies(),
            false => policy::names().filter(named).collect(),
        };
        let all_layers = [Layer::Engine, Layer::Fixed, Layer::Malloc];
        let wanted = |layer: &Layer| self.layers.is_empty() || self.layers.contains(layer);
        let layers = all_layers.into_iter().filter(wanted).collect();
        Field { layers, policies, allocators: self.allocators.clone(), peers }
    }
}

/// Measures what `arguments` ask for and prints it.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    match &arguments.other {
        Some(Other::Malloc(arguments)) => return malloc::run(arguments),
        Some(Other::Shared(arguments)) => return shared::run(arguments),
        None => {}
    }
    let extent = arguments.extent();
    let mut cases = plan::cases(&arguments.kinds(), extent, &arguments.field());
    if arguments.bars {
        cases = bars::needed(cases);
    }
    let (rounds, memory) = (arguments.repeat.map(usize::from), memory::budget()?);
    let effort = |case: &Case| extent.effort(case.workload, rounds, memory);
    let progress = Progress::new("bench", cases.iter().map(|case| case.steps(&effort(case))).sum());
    let mut all_rows = Vec::new();
    for case in &cases {
        progress.at(&case.workload.to_string());
        let rows = report::rows(case, &case.measure(&effort(case), &progress));
        if !arguments.json {
            progress.aside(|| rows.chunks(case.contenders.len()).for_each(report::print_table));
        }
        all_rows.extend(rows);
    }
    drop(progress);
    if !arguments.bars {
        if arguments.json {
            results::print(&all_rows)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let bars = bars::of(&all_rows);
    if arguments.json {
        results::print(&bars)?;
    } else {
        bars::print(&bars);
    }
    Ok(bars::verdict(&bars))
}
