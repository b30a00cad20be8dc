//! The arguments of `heapwright compare`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use clap::builder::PossibleValuesParser;

use super::condition::Condition;
use super::confirm::Program;
use super::export::Form;
use super::gather::Plan;
use super::metric::Metric;
use super::pace::Pace;
use super::rounds::Course;
use super::source::{Run, Source};
use super::typed::Typed;
use heapwright_allocators::peers::Peer;
use heapwright_allocators::policy;
use heapwright_allocators::rules::{self, ChosenRules, RuleArguments};
use heapwright_host::destination::{Contents, Destination};
use heapwright_host::names::STANDARD_OUTPUT;
use heapwright_placement::PolicyKind;
use heapwright_real::Latencies;
use heapwright_real::Threads;
use heapwright_run::program;
use heapwright_show::number::parse_duration;
use heapwright_show::usage::Misuse;

/// The examples at the end of the help text.
pub const EXAMPLES: &str = "\
Examples:
  heapwright compare -- /usr/bin/python3 job.py     records a program, and replays it everywhere
  heapwright compare --confirm -- ./server --once   then runs the program itself under the best of them
  heapwright compare --process cc1plus -- make      records only the compiler that it starts
  heapwright compare gcc.hwt                        an existing trace
  heapwright compare                                a trace that is part of the command
  heapwright compare gcc.hwt --policies-only        simulations alone: quick, and the same on every machine
  heapwright compare gcc.hwt --rules report000      the policies by the rules of a published allocator
  heapwright compare gcc.hwt --allocator mine=./libmine.so
  heapwright compare gcc.hwt --json base.json       keeps all figures ...
  heapwright compare gcc.hwt --baseline base.json --fail-if 'peak > 1.05x'
                                                    ... and fails when memory has grown by a twentieth since
  heapwright compare gcc.hwt --fail-if 'heap/asked of best > 1.1' --fail-if 'p99 of mine > 2us'

Conditions: FIGURE [of ROW] > LIMIT (or >=, <, <=). A limit is a size, a time, a percentage, a number, or
a multiple (x) of the baseline's figure, of that of another ROW, or of what was asked for:
'peak > 64MiB', 'external of first > 30%', 'time of mine > 1.2x of system', 'peak > 1.3x asked'.

Exit code: 0 on success; 1 when a condition holds, the program cannot be confirmed, or something fails; 2 for
wrong usage; 130 after Ctrl-C, which ends the measurement and shows its figures so far.";

/// The arguments of `compare`.
#[derive(Args)]
pub struct Arguments {
    /// The trace, as written by `heapwright record` or `heapwright import` [default: one that the command carries
    /// inside].
    #[arg(value_name = "TRACE", conflicts_with = "program")]
    trace: Option<PathBuf>,

    /// A program and its arguments, to be recorded first.
    #[arg(value_name = "PROGRAM", last = true)]
    program: Vec<OsString>,

    /// Record only the processes, among those that the program starts, that run a program of this name.
    #[arg(long, value_name = "NAME", requires = "program", conflicts_with = "trace")]
    process: Option<String>,

    /// Keep the recorded trace in this file.
    #[arg(long, value_name = "FILE", requires = "program", conflicts_with = "trace")]
    keep_trace: Option<PathBuf>,

    /// Policies, separated by commas; may be given several times. All of the engine's if none is given.
    #[arg(long, short, value_name = "POLICIES", value_delimiter = ',',
          value_parser = PossibleValuesParser::new(policy::values()))]
    policy: Vec<String>,

    /// Another allocator: its name in tables and its library. May be given several times.
    #[arg(long, value_name = "NAME=PATH", value_parser = Peer::parse, conflicts_with = "policies_only")]
    allocator: Vec<Peer>,

    /// Simulate the policies only; replay nothing.
    #[arg(long)]
    policies_only: bool,

    /// Number of measurement rounds, whatever the budget. Each round runs every allocator once, in random order
    /// [default: what the budget allows, at most 30, or 200 where there is noise].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000),
          conflicts_with = "policies_only")]
    rounds: Option<u32>,

    /// Time to measure for, approximately.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_duration,
          conflicts_with = "policies_only")]
    budget: Duration,

    /// Make all calls in one thread, in recorded order, instead of in as many threads as were recorded.
    #[arg(long, conflicts_with = "policies_only")]
    one_thread: bool,

    /// The default: as many threads as were recorded.
    #[arg(long, hide = true, conflicts_with = "one_thread")]
    threads: bool,

    /// Then run the program itself under the best of them, and let that decide. It runs without input, and its output
    /// is thrown away.
    #[arg(long, requires = "program", conflicts_with_all = ["trace", "policies_only"])]
    confirm: bool,

    /// Skip the rounds that time each call.
    #[arg(long, conflicts_with = "policies_only")]
    no_latencies: bool,

    /// The seed of the order of each round and of random fit.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// The rules of the policies' heaps, simulated and real.
    #[command(flatten)]
    rules: RuleArguments,

    /// The columns to show, separated by commas: program-time, program-time/system, program-peak, program-peak/system,
    /// time, time/system, peak, peak/asked, average, faults, p50, p99, p9999, max, heap, heap/asked, external,
    /// external-mean, internal, internal-mean, holes, holes-mean, splits, coalesces, moved.
    #[arg(long, value_name = "LIST", value_delimiter = ',', hide_possible_values = true,
          value_parser = PossibleValuesParser::new(Metric::ALL.map(Metric::name)))]
    columns: Vec<String>,

    /// Fail when this condition holds; may be given several times.
    #[arg(long, value_name = "CONDITION", value_parser = Condition::parse)]
    pub fail_if: Vec<Condition>,

    /// The row that a condition is about when it names none [default: system; best for simulated figures].
    #[arg(long, value_name = "ROW", requires = "fail_if")]
    pub subject: Option<String>,

    /// Show the changes since an earlier comparison, written by --json.
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,

    /// Use the baseline although it was measured on a machine with other processors, kernel or memory.
    #[arg(long, requires = "baseline")]
    pub baseline_of_another_machine: bool,

    /// Write everything as one JSON object to this file, or to standard output instead of tables if no file is named.
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
    /// Returns the trace to compare; runs and records the program if there is one.
    pub fn source(&self) -> Result<Source> {
        let keep = self.keep()?;
        match &self.trace {
            Some(path) => Source::file(path),
            None if self.program.is_empty() => Source::bundled(),
            None => Source::recorded(&self.program, self.process.as_deref(), keep.as_ref()),
        }
    }

    /// Returns what is compared, and how.
    ///
    /// # Errors
    /// What is wrong with the rules, or that they exclude a policy or programs.
    pub fn plan(&self) -> Result<Plan> {
        let rules = self.rules.chosen()?;
        if !self.policies_only {
            rules::refuse_odd(&rules.simulated).context("add --policies-only, or leave this rule out")?;
        }
        let course = Course {
            pace: Pace { rounds: self.rounds, budget: self.budget },
            threads: if self.one_thread { Threads::One } else { Threads::AsRecorded },
            latencies: if self.no_latencies { Latencies::Off } else { Latencies::On },
            seed: self.seed,
        };
        Ok(Plan {
            policies: self.policies(&rules)?,
            allocators: self.allocator.clone(),
            program: None,
            course: (!self.policies_only).then_some(course),
            seed: self.seed,
            rules,
            typed: self.typed(),
        })
    }

    fn typed(&self) -> Typed {
        let typed = Typed::of(self.trace.as_deref(), &self.program, &self.policy, &self.allocator);
        self.process.iter().fold(typed, |typed, name| typed.with(&["--process", name]))
    }

    /// Returns the policies that are compared.
    fn policies(&self, rules: &ChosenRules) -> Result<Vec<&'static str>> {
        if rules.of_programs.is_some() {
            let policies = rules::policies(&rules.simulated, &self.policy)?;
            return Ok(policies.into_iter().map(PolicyKind::name).collect());
        }
        let is_chosen = |name: &&str| self.policy.iter().any(|chosen| chosen == name);
        let chosen: Vec<&'static str> = policy::names().filter(is_chosen).collect();
        let unplaced = chosen.iter().find(|name| PolicyKind::from_name(name).is_none());
        if let Some(name) = unplaced.filter(|_| self.policies_only) {
            bail!(Misuse(format!("{name} has no placement to simulate: leave out --policies-only")));
        }
        Ok(if chosen.is_empty() { Plan::usual().policies } else { chosen })
    }

    /// Returns the program to be run itself, with what is known of its recorded run.
    ///
    /// # Errors
    /// When its end says nothing: the process whose trace is taken continued.
    pub fn program(&self, run: Option<Run>) -> Result<Option<Program>> {
        let Some(Run { elapsed, status, continued }) = run.filter(|_| self.confirm) else { return Ok(None) };
        ensure!(
            !continued,
            "--confirm measures what ends with the program, and its process with most calls was still running then: \
             keep it in the foreground, or leave --confirm out"
        );
        Ok(Some(Program { command: self.program.clone(), elapsed, status }))
    }

    /// Returns the columns of the tables.
    pub fn columns(&self) -> Vec<Metric> {
        let chosen: Vec<Metric> = self.columns.iter().filter_map(|name| Metric::from_name(name)).collect();
        if chosen.is_empty() { Metric::ALL.to_vec() } else { chosen }
    }

    /// Returns the files to write, each with its form.
    ///
    /// # Errors
    /// When one cannot be written, or two are the same.
    pub fn exports(&self) -> Result<Vec<(Form, Destination)>> {
        let files = [(Form::Json, &self.json), (Form::Csv, &self.csv), (Form::Markdown, &self.markdown)];
        let named = files.into_iter().filter_map(|(form, path)| Some((form, path.as_deref()?)));
        let (program, sources) = (self.program_file(), self.sources());
        let sources: Vec<&Path> = sources.chain(program.as_deref()).collect();
        let destination = |path| Destination::of(path, Contents::Other, &sources);
        let exports: Vec<(Form, Destination)> =
            named.map(|(form, path)| Ok((form, destination(path)?))).collect::<Result<_>>()?;
        let keep = self.keep()?;
        let all: Vec<&Destination> = exports.iter().map(|(_, destination)| destination).chain(&keep).collect();
        Destination::ensure_apart(&all)?;
        Ok(exports)
    }

    /// Returns where the recorded trace is kept, if it is.
    fn keep(&self) -> Result<Option<Destination>> {
        let keep = |place: &PathBuf| Destination::of(place, Contents::Trace, &[]);
        self.keep_trace.as_ref().map(keep).transpose()
    }

    /// Returns the file of the program that is recorded.
    fn program_file(&self) -> Option<PathBuf> {
        self.program.first().and_then(|name| program::find(name))
    }

    /// Returns the files that the command reads, without the program.
    fn sources(&self) -> impl Iterator<Item = &Path> {
        let libraries = self.allocator.iter().map(|peer| peer.library.as_path());
        self.trace.as_deref().into_iter().chain(self.rules.file()).chain(self.baseline.as_deref()).chain(libraries)
    }
}
