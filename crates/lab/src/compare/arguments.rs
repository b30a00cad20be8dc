//! What `heapwright compare` may be told.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use clap::builder::PossibleValuesParser;

use super::condition::Condition;
use super::export::{Form, STANDARD_OUTPUT};
use super::gather::Plan;
use super::metric::Metric;
use super::pace::Pace;
use super::rounds::Course;
use super::source::Source;
use crate::peers::Peer;
use crate::policy;
use crate::real::{Latencies, Threads};

pub const EXAMPLES: &str = "\
Examples:
  heapwright compare -- /usr/bin/python3 job.py     records a program, and replays it everywhere
  heapwright compare --process cc1plus -- make      of all that it starts, the compiler
  heapwright compare gcc.hwt                        a trace that there is
  heapwright compare                                one that the command carries inside
  heapwright compare gcc.hwt --policies-only        simulations alone: quick, and the same on every machine
  heapwright compare gcc.hwt --allocator mine=./libmine.so
  heapwright compare gcc.hwt --json base.json       keeps all figures ...
  heapwright compare gcc.hwt --baseline base.json --fail-if 'peak > 1.05x'
                                                    ... and fails when memory has grown by a twentieth since
  heapwright compare gcc.hwt --fail-if 'heap/asked of best > 1.1' --fail-if 'p99 of mine > 2us'

Conditions: FIGURE [of ROW] > LIMIT (or >=, <, <=). A limit is a size, a time, a percentage, a number, or
so many times (x) the baseline's figure, or that of another ROW, or what was asked for:
'peak > 64MiB', 'external of first > 30%', 'time of mine > 1.2x of system', 'peak > 1.3x asked'.

Exit code: 0. 1 when a condition holds or something fails. 2 for wrong usage. 130 after Ctrl-C, which
ends the measuring; what was measured until then is shown.";

/// What `compare` may be told.
#[derive(Args)]
pub struct Arguments {
    /// The trace, as written by `heapwright record` or `heapwright import` [default: one that the command carries inside].
    #[arg(value_name = "TRACE", conflicts_with = "program")]
    trace: Option<PathBuf>,

    /// A program and its arguments, to be recorded first.
    #[arg(value_name = "PROGRAM", last = true)]
    program: Vec<OsString>,

    /// Of the processes that the program starts, record those that run a program of this name.
    #[arg(long, value_name = "NAME", requires = "program")]
    process: Option<String>,

    /// Keep the recorded trace at this file.
    #[arg(long, value_name = "FILE", requires = "program")]
    keep_trace: Option<PathBuf>,

    /// A policy; may be given several times. All of the engine's if none is given.
    #[arg(long, short, value_name = "POLICY", value_parser = PossibleValuesParser::new(policy::values()))]
    policy: Vec<String>,

    /// Another allocator: a name for it and its library. May be given several times.
    #[arg(long, value_name = "NAME=PATH", value_parser = Peer::parse, conflicts_with = "policies_only")]
    allocator: Vec<Peer>,

    /// Simulate the policies, and run nothing.
    #[arg(long)]
    policies_only: bool,

    /// So many rounds, in each of which everybody is measured once [default: as many as the budget allows, at most 30].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000), conflicts_with = "policies_only")]
    rounds: Option<u32>,

    /// About how long to measure.
    #[arg(long, value_name = "DURATION", default_value = "60s", conflicts_with = "policies_only")]
    budget: humantime::Duration,

    /// Make the calls in as many threads as were recorded, each its own.
    #[arg(long, conflicts_with = "policies_only")]
    threads: bool,

    /// Leave out the rounds in which each call is timed.
    #[arg(long, conflicts_with = "policies_only")]
    no_latencies: bool,

    /// The seed of the order of each round and of random fit.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// The columns to show, separated by commas: time, time/system, peak, peak/asked, average, faults, p50, p99, p9999, max,
    /// heap, heap/asked, external, external-mean, internal, internal-mean, holes, holes-mean, splits, coalesces, moved.
    #[arg(long, value_name = "LIST", value_delimiter = ',', hide_possible_values = true,
          value_parser = PossibleValuesParser::new(Metric::ALL.map(Metric::name)))]
    columns: Vec<String>,

    /// Fail when this holds; may be given several times.
    #[arg(long, value_name = "CONDITION", value_parser = Condition::parse)]
    pub fail_if: Vec<Condition>,

    /// Whose figures conditions are about that name no row [default: system; best for simulated figures].
    #[arg(long, value_name = "ROW", requires = "fail_if")]
    pub subject: Option<String>,

    /// Show what has changed since an earlier comparison, written by --json.
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,

    /// Write everything as one JSON object to this file; to standard output, instead of tables, if none is named.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = STANDARD_OUTPUT)]
    json: Option<PathBuf>,

    /// Write the figures and their intervals as CSV, a line per row (- for standard output).
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,

    /// Write the tables as Markdown (- for standard output).
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

impl Arguments {
    /// Where the trace comes from; a program is run for it.
    pub fn source(&self) -> Result<Source> {
        match &self.trace {
            Some(path) => Source::file(path),
            None if self.program.is_empty() => Source::bundled(),
            None => Source::recorded(&self.program, self.process.as_deref(), self.keep_trace.as_deref()),
        }
    }

    /// What is compared, and how.
    pub fn plan(&self) -> Plan {
        let is_chosen = |name: &&str| self.policy.iter().any(|chosen| chosen == name);
        let chosen: Vec<&'static str> = policy::names().filter(is_chosen).collect();
        let course = Course {
            pace: Pace { rounds: self.rounds, budget: self.budget.into() },
            threads: if self.threads { Threads::Faithful } else { Threads::TotalOrder },
            latencies: if self.no_latencies { Latencies::Off } else { Latencies::On },
            seed: self.seed,
        };
        Plan {
            policies: if chosen.is_empty() { Plan::usual().policies } else { chosen },
            allocators: self.allocator.clone(),
            course: (!self.policies_only).then_some(course),
            seed: self.seed,
        }
    }

    /// The columns of the tables.
    pub fn columns(&self) -> Vec<Metric> {
        let chosen: Vec<Metric> = self.columns.iter().filter_map(|name| Metric::from_name(name)).collect();
        if chosen.is_empty() { Metric::ALL.to_vec() } else { chosen }
    }

    /// The files to write, each with its form.
    pub fn exports(&self) -> Vec<(Form, &Path)> {
        let files = [(Form::Json, &self.json), (Form::Csv, &self.csv), (Form::Markdown, &self.markdown)];
        files.into_iter().filter_map(|(form, path)| Some((form, path.as_deref()?))).collect()
    }
}
