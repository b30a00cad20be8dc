//! What may be typed. What is meant by it is each command's own affair.

use std::ffi::OsString;
use std::path::PathBuf;

use anstream::ColorChoice;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::policy;

/// Decide how memory is placed, by figures of your own program.
#[derive(Parser)]
#[command(name = "heapwright", version, max_term_width = 100, arg_required_else_help = true, after_help = EXAMPLES)]
pub struct Cli {
    /// When to use colour; `auto` is on a terminal, unless NO_COLOR is set.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: Color,

    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  heapwright run --policy first -- python3 job.py    your program, under first fit
  heapwright reproduce                               the published experiments
  heapwright bench                                   policies and allocators
  heapwright shm inspect orders                      what is in a shared heap
  heapwright help run                                more on one command";

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    /// Run a program under a policy and print the statistics of its heap.
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Run a program and write down every call of its malloc family, as a trace.
    #[command(after_help = crate::record::EXAMPLES)]
    Record(crate::record::Arguments),
    /// Watch a program's heap on the terminal while it runs.
    #[command(after_help = crate::watch::EXAMPLES)]
    Watch(crate::watch::Arguments),
    /// Replay a recorded program's heap under every policy.
    #[command(after_help = crate::replay::EXAMPLES)]
    Replay(crate::replay::Arguments),
    /// Show on one page what a recorded program does to its heap, under every policy.
    #[command(after_help = crate::report::EXAMPLES)]
    Report(crate::report::Arguments),
    /// Search the shortest region in which a recorded program succeeds, under every policy.
    #[command(after_help = crate::fit::EXAMPLES)]
    Fit(crate::fit::Arguments),
    /// Make a trace as small as it can be while it still shows something.
    #[command(after_help = crate::minimize::EXAMPLES)]
    Minimize(crate::minimize::Arguments),
    /// Simulate every combination of policies, rules and regions, a row each.
    #[command(after_help = crate::sweep::EXAMPLES)]
    Sweep(crate::sweep::Arguments),
    /// Put the shards of a sweep together.
    #[command(after_help = crate::sweep::merge::EXAMPLES)]
    Merge(crate::sweep::merge::Arguments),
    /// Replay a trace under every policy and allocator, and say which is best.
    #[command(after_help = crate::compare::EXAMPLES)]
    Compare(Box<crate::compare::Arguments>),
    /// Turn a trace that another tool wrote into one of ours.
    #[command(after_help = crate::import::EXAMPLES)]
    Import(crate::import::Arguments),
    /// Turn a trace of ours into one that other tools read.
    #[command(after_help = crate::export::EXAMPLES)]
    Export(crate::export::Arguments),
    /// Run the published experiments again and set every figure beside ours.
    #[command(after_help = REPRODUCE_EXAMPLES)]
    Reproduce(ReproduceArgs),
    /// Measure policies and allocators on built-in workloads.
    #[command(after_help = crate::bench::EXAMPLES)]
    Bench(crate::bench::Arguments),
    /// Measure one allocator on one workload, as told on standard input.
    #[command(name = crate::bench::worker::COMMAND, hide = true)]
    BenchChild(crate::bench::worker::Task),
    /// Work on a heap that processes share, as told on standard input.
    #[command(name = crate::bench::shared::worker::COMMAND, hide = true)]
    BenchSharedWorker(crate::bench::shared::task::Task),
    /// Make segments of shared memory, look into them, and put them in order.
    #[command(subcommand, after_help = crate::shm::EXAMPLES)]
    Shm(crate::shm::Command),
    /// Print the completions of a shell.
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Do a job under whatever allocator this process was started with, and print its result.
    #[command(name = crate::child::COMMAND, hide = true)]
    Child {
        /// The job, as JSON.
        job: String,
    },
}

/// When to use colour.
#[derive(Clone, Copy, ValueEnum)]
pub enum Color {
    /// On a terminal.
    Auto,
    /// Also in a file or a pipe.
    Always,
    /// Nowhere.
    Never,
}

impl Color {
    /// Makes this the choice for everything printed from now on.
    pub fn write_global(self) {
        match self {
            Color::Auto => ColorChoice::Auto,
            Color::Always => ColorChoice::Always,
            Color::Never => ColorChoice::Never,
        }
        .write_global();
    }
}

/// What `run` may be told.
#[derive(Args)]
pub struct RunArgs {
    /// How blocks are placed.
    #[arg(long, short, value_name = "POLICY", default_value = policy::CACHED, value_parser = PossibleValuesParser::new(policy::drop_in()))]
    pub policy: String,

    /// The form of the statistics.
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub stats: Stats,

    /// Write the statistics to this file instead of to standard error.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// The seed of random fit: the same seed and the same requests give the same heap.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// What happens when the program frees what is not a block.
    #[arg(long, value_name = "REACTION")]
    pub on_bad_free: Option<OnBadFree>,

    /// Take these measures against overflows, use after free and their like, with commas between them; all of them if none is named.
    #[arg(long, value_name = "MEASURE", num_args = 0..=1, require_equals = true, value_delimiter = ',',
        default_missing_value = MEASURES, value_parser = PossibleValuesParser::new(MEASURES.split(',')))]
    pub harden: Option<Vec<String>>,

    /// Use this drop-in library instead of the one inside the command.
    #[arg(long, value_name = "PATH")]
    pub library: Option<PathBuf>,

    /// The program.
    #[arg(value_name = "PROGRAM")]
    pub program: OsString,

    /// Its arguments.
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub args: Vec<OsString>,
}

/// The measures that the drop-in library knows.
const MEASURES: &str = "guard,random,quarantine,zero,canary";

const RUN_EXAMPLES: &str = "\
Examples:
  heapwright run -- ls -l                            the malloc for speed, a table at exit
  heapwright run --policy worst -- python3 job.py    a policy
  heapwright run --stats json -o heap.json -- make   for a program to read
  heapwright run -p random --seed 7 -- sort big.txt  random, but repeatable
  heapwright run --harden -- ./server                guard pages, quarantine, canaries, ...

The program's children run under the policy too, and report as well.

Exit code: the program's own, or its signal. 127: there is no such program.
126: it cannot be executed. 125: heapwright itself failed. 2: wrong usage.";

/// The form of statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Stats {
    /// A table.
    Text,
    /// One JSON object: {"schema": 1, "results": [ ... ]}, a row per process.
    Json,
}

/// What happens when a program frees what is not a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnBadFree {
    /// One line says what was freed, and the program is aborted.
    Abort,
    /// It is counted, and the program goes on.
    Ignore,
}

impl OnBadFree {
    /// The word that the drop-in library knows it by.
    pub fn name(self) -> &'static str {
        match self {
            OnBadFree::Abort => "abort",
            OnBadFree::Ignore => "ignore",
        }
    }
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  source <(heapwright completions bash)
  heapwright completions fish > ~/.config/fish/completions/heapwright.fish";

/// What `reproduce` may be told.
#[derive(Args)]
pub struct ReproduceArgs {
    /// The experiments, by the number of their report; all of them if none is named.
    #[arg(value_name = "EXPERIMENT")]
    pub experiments: Vec<Experiment>,

    /// How often each time is measured.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub rounds: u16,

    /// With how many seeds report 002's random requests are drawn.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u16).range(100..))]
    pub seeds: u16,

    /// Leave out the times: what is left is the same on every run.
    #[arg(long)]
    pub no_times: bool,

    /// Print one JSON object: {"schema": 1, "results": [ ... ]}, a row per figure.
    #[arg(long)]
    pub json: bool,
}

const REPRODUCE_EXAMPLES: &str = "\
Examples:
  heapwright reproduce                    every table of every report
  heapwright reproduce 000 --rounds 20    one report, as many runs as it made
  heapwright reproduce 002 --seeds 5000   finer distributions
  heapwright reproduce --no-times --json  all counts, for a program to read

Verdicts:
  exact    the same, to the last published digit
  within   in the range where it has to lie (a time: within a factor of two)
  differs  not the same; a note says why
  defect   not the same, because the published program had a defect

Exit code: 0, or 1 when a count that has to agree does not.";

/// A published experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Experiment {
    /// Report 000: a drop-in malloc with four fits.
    Fits,
    /// Report 001: an arena with four fits.
    Arena,
    /// Report 002: buddies in a shared-memory segment.
    Shared,
    /// Report 003: five fits and buddies in a small pool.
    Pool,
    /// Report 004: a mapping per allocation.
    Mappings,
}

impl Experiment {
    /// All of them, by number.
    pub const ALL: [Experiment; 5] =
        [Experiment::Fits, Experiment::Arena, Experiment::Shared, Experiment::Pool, Experiment::Mappings];

    /// The report's number.
    pub fn number(self) -> &'static str {
        match self {
            Experiment::Fits => "000",
            Experiment::Arena => "001",
            Experiment::Shared => "002",
            Experiment::Pool => "003",
            Experiment::Mappings => "004",
        }
    }

    /// What it is about.
    pub fn subject(self) -> &'static str {
        match self {
            Experiment::Fits => "a drop-in malloc with four fits, against system malloc",
            Experiment::Arena => "an allocator with four fits in one region",
            Experiment::Shared => "buddies in a shared-memory segment",
            Experiment::Pool => "five fits and buddies in a pool of 1 KiB",
            Experiment::Mappings => "a mapping of OS pages per allocation",
        }
    }
}

impl ValueEnum for Experiment {
    fn value_variants<'a>() -> &'a [Self] {
        &Experiment::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.number()).help(self.subject()))
    }
}
