//! Command-line arguments of `heapwright run`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use heapwright_allocators::policy;
use heapwright_allocators::rules::RuleArguments;

/// Arguments of `run`.
#[derive(Args)]
pub struct RunArgs {
    /// Placement policy [default: cached; first, or that of the rules, where rules are named].
    #[arg(long, short, value_name = "POLICY", value_parser = PossibleValuesParser::new(policy::drop_in()))]
    pub policy: Option<String>,

    /// The rules of the heap.
    #[command(flatten)]
    pub rules: RuleArguments,

    /// Format of the statistics.
    #[arg(long, value_name = "FORM", default_value = "text")]
    pub stats: Stats,

    /// Write the statistics to this file instead of to standard error.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// The seed of random fit (-p random): the same seed and the same requests give the same heap.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// Reaction when the program frees an address that is not a live block.
    #[arg(long, value_name = "REACTION")]
    pub on_bad_free: Option<OnBadFree>,

    /// Harden the heap against overflows, use after free and similar errors with these measures or levels, separated by
    /// commas; with every measure if none is named.
    #[arg(long, value_name = "MEASURE", num_args = 0..=1, require_equals = true, value_delimiter = ',',
        default_missing_value = "full", value_parser = PossibleValuesParser::new(MEASURES))]
    pub harden: Option<Vec<String>>,

    /// Use this drop-in library instead of the one inside the command.
    #[arg(long, value_name = "PATH")]
    pub library: Option<PathBuf>,

    /// The program to run.
    #[arg(value_name = "PROGRAM")]
    pub program: OsString,

    /// Arguments of the program.
    #[arg(value_name = "ARGS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub args: Vec<OsString>,
}

/// The levels of hardening of the drop-in library, and its measures.
const MEASURES: [&str; 7] = ["light", "full", "guard", "random", "quarantine", "zero", "canary"];

/// The examples at the end of the help text.
pub const EXAMPLES: &str = "\
Examples:
  heapwright run -- ls -l                            the default malloc, a table at exit
  heapwright run --policy worst -- python3 job.py    under worst fit
  heapwright run --rules report000 -p best --stats report -- ./test
                                                     as a published allocator places blocks (docs/policies.md)
  heapwright run --stats json -o heap.json -- make   for a program to read
  heapwright run -p random --seed 7 -- sort big.txt  random, but repeatable
  heapwright run --harden -- ./server                guard pages, quarantine, canaries, ...
  heapwright run --harden=light -- ./server          the measures that cost little

The program's children run under the policy too, and report as well.

Exit code: the program's own, or its signal. 127: there is no such program.
126: it cannot be executed. 125: heapwright itself failed. 2: wrong usage.";

/// Format of statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Stats {
    /// A table.
    Text,
    /// One JSON object: {"schema": 1, "results": [ ... ]}, a row per process.
    Json,
    /// The nine statistics of report 000, in its order.
    Report,
}

/// Reaction when a program frees an address that is not a live block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnBadFree {
    /// Print one line with the address, and abort the program.
    Abort,
    /// Count it, and continue.
    Ignore,
}

impl OnBadFree {
    /// Returns the name in the drop-in library's environment variable.
    pub fn name(self) -> &'static str {
        match self {
            OnBadFree::Abort => "abort",
            OnBadFree::Ignore => "ignore",
        }
    }
}
