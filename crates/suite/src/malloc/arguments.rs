//! The arguments of `heapwright bench malloc`.

use std::path::{Path, PathBuf};

use super::case::{self, Shares};
use super::contender::{self, Contender, Role};
use super::select::is_meant;
use heapwright_allocators::peers::Peer;
use heapwright_show::usage;

/// Examples for the help.
pub const EXAMPLES: &str = "\
Examples:
  bench/peers/make                                    once: builds other mallocs to measure against
  heapwright bench malloc --quick                     a first impression, in a minute
  heapwright bench malloc                             everything, in some four minutes with eight peers
  heapwright bench malloc --full                      six rounds of all the work
  heapwright bench malloc --only 'pair/1*,server/8'   some workloads, by name or kind
  heapwright bench malloc --under cached,mimalloc3    some allocators
  heapwright bench malloc --instructions              instructions of malloc and free, by valgrind
  heapwright bench malloc --allocator mine=./libm.so  one more malloc, or another of that name
  heapwright bench malloc --json runs.json            every run as well, for a program to read
  heapwright bench malloc --only scattered,phases --chart kept.svg
                                                      a picture of the memory that is retained
  heapwright bench malloc --list                      what each workload does

Every run is a fresh process. `system (A/A)` is the system's malloc measured a second time: the
difference is noise, and an allocator that differs from the best by no more than that ties with it.
Real programs are measured when they are installed on this machine.

Exit code: 0, 1 when something could not be measured, 130 after Ctrl-C (with tables of the runs
until then).";

/// The arguments of `heapwright bench malloc`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// What is measured.
    #[command(flatten)]
    pub selection: Selection,

    /// Number of measurement rounds [default: 3, 6 with --full, 1 with --quick].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub rounds: Option<u16>,

    /// Count the instructions of malloc and free instead (needs valgrind).
    #[arg(long, conflicts_with_all = ["only", "rounds", "quick", "full"])]
    pub instructions: bool,

    /// Write every run to this file as JSON; `-` is standard output, instead of tables.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Draw the memory that workloads retain after most of their blocks are freed into this file, as SVG.
    #[arg(long, value_name = "FILE", conflicts_with = "instructions")]
    pub chart: Option<PathBuf>,

    /// List the workloads and exit.
    #[arg(long)]
    pub list: bool,
}

/// Which workloads are run under which allocators, and how much of them.
#[derive(Debug, Default, clap::Args)]
pub struct Selection {
    /// Only these workloads: names as in the tables, with * and ?, or the part before the `/`.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,

    /// Only these allocators beside the system's: names as in the tables, with * and ?.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    under: Vec<String>,

    /// Another malloc to measure, by name and library. Can be repeated.
    #[arg(long, value_name = "NAME=PATH", value_parser = Peer::parse)]
    allocator: Vec<Peer>,

    /// Run a tenth of the work, once, without real programs unless they are named.
    #[arg(long, conflicts_with = "full")]
    quick: bool,

    /// Run all of the work, six times.
    #[arg(long)]
    full: bool,
}

/// The amount of work.
#[derive(Clone, Copy)]
pub struct Extent {
    /// The shares of the work of our own workloads.
    pub shares: Shares,
    /// Number of rounds.
    pub rounds: u16,
    /// Whether workloads that mostly sleep are run once only.
    pub sleepers_once: bool,
}

const QUICK: Extent = Extent { shares: Shares { usual: 0.1, sleepers: 0.1 }, rounds: 1, sleepers_once: true };
const USUAL: Extent = Extent { shares: Shares { usual: 0.2, sleepers: 1.0 }, rounds: 3, sleepers_once: true };
const FULL: Extent = Extent { shares: Shares { usual: 1.0, sleepers: 1.0 }, rounds: 6, sleepers_once: false };

/// Workloads that only `--full` runs by default.
const ONLY_FULL: [&str; 1] = ["scattered/all"];

impl Selection {
    /// Returns the libraries of the given allocators.
    pub fn libraries(&self) -> Vec<&Path> {
        self.allocator.iter().map(|peer| peer.library.as_path()).collect()
    }

    /// Returns the amount of work, with this number of rounds if it is given.
    pub fn extent(&self, rounds: Option<u16>) -> Extent {
        let usual = match (self.quick, self.full) {
            (true, _) => QUICK,
            (_, true) => FULL,
            _ => USUAL,
        };
        let sleepers_once = rounds.is_none() && usual.sleepers_once;
        Extent { rounds: rounds.unwrap_or(usual.rounds), sleepers_once, ..usual }
    }

    /// Returns the names of the selected workloads. An unknown name ends the command with a usage error.
    pub fn names(&self) -> Vec<&'static str> {
        let all: Vec<&'static str> = case::entries().map(|entry| entry.name).collect();
        refuse_unknown("workload", &self.only, &all);
        let is_left_out =
            |name: &str| self.quick && case::is_real_program(name) || !self.full && ONLY_FULL.contains(&name);
        let is_wanted = |name: &&'static str| match self.only.is_empty() {
            true => case::is_usual(name) && !is_left_out(name),
            false => self.only.iter().any(|only| is_meant(name, only)),
        };
        all.into_iter().filter(is_wanted).collect()
    }

    /// Returns the contenders: those that are named, by default the given ones and all for which `is_usual` returns
    /// true. An unknown name ends the command with a usage error.
    pub fn contenders(&self, is_usual: impl Fn(&str) -> bool) -> Vec<Contender> {
        let all = contender::all(&self.allocator);
        let names: Vec<&str> = all.iter().map(|it| it.name.as_str()).collect();
        refuse_unknown("allocator", &self.under, &names);
        let is_given = |name: &str| self.allocator.iter().any(|peer| peer.name == name);
        let is_named = |name: &str| match self.under.is_empty() {
            true => is_given(name) || is_usual(name),
            false => self.under.iter().any(|under| is_meant(name, under)),
        };
        let is_wanted = |it: &Contender| matches!(it.role, Role::Baseline | Role::Noise) || is_named(&it.name);
        all.into_iter().filter(is_wanted).collect()
    }
}

/// Ends the command with a usage error when one of `patterns` matches nothing in `all`.
fn refuse_unknown(what: &str, patterns: &[String], all: &[&str]) {
    if let Some(unknown) = patterns.iter().find(|pattern| !all.iter().any(|name| is_meant(name, pattern))) {
        let message = format!("there is no {what} {unknown:?}; there are {}", all.join(", "));
        usage::refuse(&message);
    }
}
