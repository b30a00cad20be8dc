//! What may be typed after `heapwright bench malloc`.

use std::path::PathBuf;

use clap::CommandFactory;
use clap::error::ErrorKind;

use super::bars;
use super::case::{self, Shares};
use super::contender::{self, Contender, Role};
use super::select::is_meant;
use crate::cli::Cli;
use crate::peers::Peer;

/// Examples for the help.
pub const EXAMPLES: &str = "\
Examples:
  bench/peers/make                                    once: builds other mallocs to measure against
  heapwright bench malloc --quick                     a first impression, in a minute
  heapwright bench malloc                             everything, in three minutes on two processors
  heapwright bench malloc --full --bars               five rounds of all the work, and what we set out to reach
  heapwright bench malloc --only 'pair/1*,server/8'   some workloads, by name or kind
  heapwright bench malloc --under cached,mimalloc3    some allocators
  heapwright bench malloc --instructions              instructions of malloc and free, by valgrind
  heapwright bench malloc --allocator mine=./libm.so  one more malloc, or another of that name
  heapwright bench malloc --json runs.json            every run as well, for a program to read
  heapwright bench malloc --list                      what each workload does

Every run is a fresh process. `system (A/A)` is the system's malloc measured a second time:
what differs there is noise, and who differs from the best by no more than that ties with it.
Real programs take part when they are on this machine.

Exit code: 0, 1 when something could not be measured or, with --fail, a bar does not hold, 130
after Ctrl-C (with the tables of what there is until then).";

/// What may be typed after `heapwright bench malloc`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Only these workloads: names as in the tables, with * and ?, or what stands before their `/`.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,

    /// Only these allocators beside the system's: names as in the tables, with * and ?.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    under: Vec<String>,

    /// A malloc to measure besides those found on this machine, by name and library.
    #[arg(long, value_name = "NAME=PATH", value_parser = Peer::parse)]
    allocator: Vec<Peer>,

    /// How often everything is run [default: 3, 5 with --full, 1 with --quick].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: Option<u16>,

    /// A tenth of the work, once, and without real programs unless they are named.
    #[arg(long, conflicts_with = "full")]
    quick: bool,

    /// All of the work, five times.
    #[arg(long)]
    full: bool,

    /// Judge by this run what the project has set itself for its malloc, against the best peer.
    #[arg(long)]
    pub bars: bool,

    /// Exit with 1 when one of the bars does not hold.
    #[arg(long, requires = "bars")]
    pub fail: bool,

    /// Count the instructions of malloc and of free instead (needs valgrind; --bars does it as well).
    #[arg(long, conflicts_with_all = ["bars", "only", "rounds", "quick", "full"])]
    pub instructions: bool,

    /// Write every run to this file, `-` for standard output instead of tables.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// List the workloads and do nothing.
    #[arg(long)]
    pub list: bool,
}

/// How much is done.
struct Extent {
    /// Of what our own workloads do.
    shares: Shares,
    /// How often everything is run.
    rounds: u16,
    /// Whether workloads that mostly sleep are run once only.
    sleepers_once: bool,
}

const QUICK: Extent = Extent { shares: Shares { usual: 0.1, sleepers: 0.1 }, rounds: 1, sleepers_once: true };
const USUAL: Extent = Extent { shares: Shares { usual: 0.2, sleepers: 1.0 }, rounds: 3, sleepers_once: true };
const FULL: Extent = Extent { shares: Shares { usual: 1.0, sleepers: 1.0 }, rounds: 5, sleepers_once: false };

/// What only `--full` runs unless it is named.
const ONLY_FULL: [&str; 1] = ["scattered/all"];

impl Arguments {
    fn extent(&self) -> Extent {
        match (self.quick, self.full) {
            (true, _) => QUICK,
            (_, true) => FULL,
            _ => USUAL,
        }
    }

    /// How much of their work our own workloads do.
    pub fn shares(&self) -> Shares {
        self.extent().shares
    }

    /// How often everything is run.
    pub fn rounds(&self) -> u16 {
        self.rounds.unwrap_or(self.extent().rounds)
    }

    /// Whether workloads that mostly sleep are run once only.
    pub fn sleepers_once(&self) -> bool {
        self.rounds.is_none() && self.extent().sleepers_once
    }

    /// The names of what is to be run. One that nobody has ends the command as any other mistyped argument does.
    pub fn names(&self) -> Vec<&'static str> {
        let all: Vec<&'static str> = case::entries().map(|entry| entry.name).collect();
        refuse_strangers("workload", &self.only, &all);
        let is_left_out =
            |name: &str| self.quick && case::is_real_program(name) || !self.full && ONLY_FULL.contains(&name);
        let is_wanted = |name: &&'static str| match self.only.is_empty() {
            true => case::is_usual(name) && !is_left_out(name),
            false => self.only.iter().any(|only| is_meant(name, only)),
        };
        all.into_iter().filter(is_wanted).collect()
    }

    /// Whose malloc is measured: everybody's, or those that are named; for the bars only those that they speak of, and those that are given.
    pub fn contenders(&self) -> Vec<Contender> {
        let all = contender::all(&self.allocator);
        let names: Vec<&str> = all.iter().map(|it| it.name.as_str()).collect();
        refuse_strangers("allocator", &self.under, &names);
        let is_given = |name: &str| self.allocator.iter().any(|peer| peer.name == name);
        let is_named = |name: &str| match self.under.is_empty() {
            true => !self.bars || is_given(name) || bars::is_peer(name),
            false => self.under.iter().any(|under| is_meant(name, under)),
        };
        let is_wanted = |it: &Contender| matches!(it.role, Role::Baseline | Role::Noise) || is_named(&it.name);
        all.into_iter().filter(is_wanted).collect()
    }
}

/// Ends the command when one of `patterns` means nobody in `all`.
fn refuse_strangers(what: &str, patterns: &[String], all: &[&str]) {
    if let Some(nobody) = patterns.iter().find(|pattern| !all.iter().any(|name| is_meant(name, pattern))) {
        let message = format!("there is no {what} {nobody:?}; there are {}", all.join(", "));
        Cli::command().error(ErrorKind::InvalidValue, message).exit();
    }
}
