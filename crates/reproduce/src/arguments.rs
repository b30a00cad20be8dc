//! The arguments of `heapwright reproduce`.

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};

/// The arguments of `heapwright reproduce`.
#[derive(Args)]
pub struct ReproduceArgs {
    /// The experiments, by the number of their report; all by default.
    #[arg(value_name = "EXPERIMENT")]
    pub experiments: Vec<Experiment>,

    /// Number of measurement rounds for times.
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub rounds: u16,

    /// Number of seeds for report 002's random requests.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u16).range(100..))]
    pub seeds: u16,

    /// Omit the times; all other figures are the same on every run.
    #[arg(long)]
    pub no_times: bool,

    /// Print one JSON object: {"schema": 1, "results": [ ... ]}, a row per figure.
    #[arg(long)]
    pub json: bool,
}

/// Examples for the help.
pub const EXAMPLES: &str = "\
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
