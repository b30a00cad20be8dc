//! `heapwright bench`: measures built-in workloads on three layers: the engine alone, heaps in a fixed region, and
//! whole mallocs.
//!
//! Every contender is measured in a worker process, started by `runner`; what it runs is in the crate `workloads`. The
//! parent interleaves the rounds of all workers (`measure`).

mod contender;
pub mod malloc;
mod measure;
mod output;
mod plan;
mod report;
mod runner;
pub mod shared;

use std::process::ExitCode;

use anyhow::Result;
use clap::builder::PossibleValuesParser;

pub use self::contender::{Contender, Field, Layer, MMAP, NO_OP, SYSTEM};
pub use self::measure::Case;
pub use self::output::Output;
pub use self::plan::{Extent, cases};
pub use self::report::Row;
use heapwright_allocators::peers;
use heapwright_allocators::policy;
use heapwright_show::progress::Progress;
use heapwright_show::results;
use heapwright_show::usage;
pub use heapwright_workloads::subjects::Crate;
pub use heapwright_workloads::workloads::Kind;

/// Examples for the help.
pub const EXAMPLES: &str = "\
Examples:
  heapwright bench --quick                                 a first impression, in seconds
  heapwright bench steady pair --layers malloc             whole mallocs only
  heapwright bench comb --policies first,best --repeat 9   two policies, more rounds
  heapwright bench --allocators talc,mimalloc --json       for a program to read
  heapwright bench shared                                  several processes on one heap
  heapwright bench malloc                                  malloc libraries, as programs meet them

An operation is one allocate or one free. Its time is processor time and includes the cost of the harness, which is
the row `no-op`. The cost of reading the clock is subtracted from latencies. `system (A/A)` is the system's malloc
measured a second time: the difference is noise. ± is half the 95 % interval of the median, from six rounds up.";

/// The arguments of `heapwright bench`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Arguments {
    /// Another suite.
    #[command(subcommand)]
    other: Option<Other>,

    /// The workloads; all by default.
    #[arg(value_name = "WORKLOAD", value_enum)]
    workloads: Vec<Kind>,

    /// Other allocators to measure, by name (talc, rlsf, mimalloc…); all that are available by default.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    allocators: Option<Vec<String>>,

    /// The policies to measure.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = PossibleValuesParser::new(policy::names()))]
    policies: Vec<String>,

    /// The layers to measure.
    #[arg(long, value_name = "LAYERS", value_delimiter = ',', value_enum)]
    layers: Vec<Layer>,

    /// Number of measurement rounds. More rounds reduce the noise.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeat: Option<u16>,

    /// Measure small sizes in few rounds: less than 20 seconds.
    #[arg(long, conflicts_with = "full")]
    quick: bool,

    /// Measure every size for every allocator, with and without writing to blocks: half an hour.
    #[arg(long)]
    full: bool,

    /// Print one JSON object instead of tables.
    #[arg(long)]
    json: bool,
}

/// The other suites.
#[derive(Debug, clap::Subcommand)]
enum Other {
    /// Measure malloc libraries as programs use them when preloaded: time and memory, in fresh processes.
    #[command(after_help = malloc::EXAMPLES)]
    Malloc(malloc::Arguments),
    /// Measure heaps that several processes share, compared with Boost.Interprocess.
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
        Kind::ALL.into_iter().filter(|kind| self.workloads.is_empty() || self.workloads.contains(kind)).collect()
    }

    /// Returns the contenders that are measured. An unknown name ends the command with a usage error.
    fn field(&self) -> Field {
        let peers = peers::find();
        let known: Vec<&str> =
            Crate::ALL.map(Crate::name).into_iter().chain(peers.iter().map(|it| it.name.as_str())).collect();
        if let Some(name) = self.allocators.iter().flatten().find(|name| !known.contains(&name.as_str())) {
            let message = format!("there is no allocator {name:?} here; there are {}", known.join(", "));
            usage::refuse(&message);
        }
        let named = |name: &&'static str| self.policies.iter().any(|other| other == name);
        let policies = match self.policies.is_empty() {
            true => self.extent().policies(),
            false => policy::names().filter(named).collect(),
        };
        let wanted = |layer: &Layer| self.layers.is_empty() || self.layers.contains(layer);
        let layers = Layer::ALL.into_iter().filter(wanted).collect();
        Field { layers, policies, allocators: self.allocators.clone(), peers }
    }
}

/// Measures and prints what `arguments` select.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    match &arguments.other {
        Some(Other::Malloc(arguments)) => return malloc::run(arguments),
        Some(Other::Shared(arguments)) => return shared::run(arguments),
        None => {}
    }
    let extent = arguments.extent();
    let cases = plan::cases(&arguments.kinds(), extent, &arguments.field());
    let rounds = arguments.repeat.map(usize::from);
    if arguments.json {
        results::print(&measure(&cases, extent, rounds, Output::Nothing)?)?;
    } else {
        measure(&cases, extent, rounds, Output::Tables)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Measures `cases` in `rounds` rounds, by default as many as suit each case, and returns all rows.
///
/// # Errors
/// When the available memory cannot be determined.
pub fn measure(cases: &[Case], extent: Extent, rounds: Option<usize>, output: Output) -> Result<Vec<Row>> {
    let memory = heapwright_host::memory::budget()?;
    let effort = |case: &Case| extent.effort(case.workload, rounds, memory);
    let progress = Progress::new("bench", cases.iter().map(|case| case.steps(&effort(case))).sum());
    let mut all_rows = Vec::new();
    for case in cases {
        progress.at(&case.workload.to_string());
        let rows = report::rows(case, &case.measure(&effort(case), &progress));
        if output == Output::Tables {
            progress.aside(|| rows.chunks(case.contenders.len()).for_each(report::print_table));
        }
        all_rows.extend(rows);
    }
    Ok(all_rows)
}
