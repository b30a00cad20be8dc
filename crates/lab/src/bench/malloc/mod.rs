//! `heapwright bench malloc`: whole mallocs, as somebody meets them who preloads one.
//!
//! From the bottom up: `contender` (whose malloc), `figures` (what is measured), `process` (a program, started by the small launcher and
//! measured from there), `programs` and `case` (what there is to run), `rounds` (everybody in turns), `analysis` (what the figures
//! mean), `show` and `export` (how it is told). The workloads themselves are in the crate `heapwright-bench`.

mod analysis;
mod case;
mod contender;
mod export;
mod figures;
mod process;
mod programs;
mod rounds;
mod show;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap::error::ErrorKind;

use self::analysis::Suite;
use self::case::{Case, Stage};
use self::export::Settings;
use self::figures::Row;
use self::rounds::Rounds;
use crate::cli::Cli;
use crate::compare::{INTERRUPTED, Interruption};
use crate::peers::Peer;

/// Examples for the help.
pub const EXAMPLES: &str = "\
Examples:
  heapwright bench malloc --quick                     a first impression, in a minute
  heapwright bench malloc                             everything, in ten minutes on two processors
  heapwright bench malloc --only pair,server/8,git    some workloads, by name or kind
  heapwright bench malloc --allocator mine=./libm.so  one more malloc, or another of that name
  heapwright bench malloc --json runs.json            every run as well, for a program to read
  heapwright bench malloc --list                      what each workload does

Every run is a fresh process. `system (A/A)` is the system's malloc measured a second time:
what differs there is noise, and who differs from the best by no more than that ties with it.
Real programs take part when they are on this machine.

Exit code: 0, 1 when something could not be measured, 130 after Ctrl-C (with the tables of
what there is until then).";

/// What may be typed after `heapwright bench malloc`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Only these workloads: names as in the tables, or what stands before their `/`.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    only: Vec<String>,

    /// A malloc to measure besides those found on this machine, by name and library.
    #[arg(long, value_name = "NAME=PATH", value_parser = Peer::parse)]
    allocator: Vec<Peer>,

    /// How often everything is run [default: 5, or 1 with --quick].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: Option<u16>,

    /// A tenth of the work, once, and without real programs unless they are named.
    #[arg(long)]
    quick: bool,

    /// Write every run to this file, `-` for standard output instead of tables.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// List the workloads and do nothing.
    #[arg(long)]
    list: bool,
}

/// The share of the work that `--quick` does, and the workloads that it leaves out unless they are named.
const QUICK_SHARE: f64 = 0.1;
const NOT_QUICK: [&str; 1] = ["scattered/all"];
/// Rounds, if nobody says how many.
const ROUNDS: u16 = 5;

impl Arguments {
    fn share(&self) -> f64 {
        if self.quick { QUICK_SHARE } else { 1.0 }
    }

    fn rounds(&self) -> u16 {
        self.rounds.unwrap_or(if self.quick { 1 } else { ROUNDS })
    }

    /// The names of what is to be run. One that nobody has ends the command as any other mistyped argument does.
    fn names(&self) -> Vec<&'static str> {
        let all: Vec<&'static str> = case::entries().map(|entry| entry.name).collect();
        let is_called = |name: &str, only: &str| name == only || name.split('/').next() == Some(only);
        if let Some(nobody) = self.only.iter().find(|only| !all.iter().any(|name| is_called(name, only))) {
            let message = format!("there is no workload {nobody:?}; there are {}", all.join(", "));
            Cli::command().error(ErrorKind::InvalidValue, message).exit();
        }
        let is_usual = |name: &str| {
            case::is_usual(name) && !(self.quick && (case::is_real_program(name) || NOT_QUICK.contains(&name)))
        };
        let is_wanted = |name: &&'static str| match self.only.is_empty() {
            true => is_usual(name),
            false => self.only.iter().any(|only| is_called(name, only)),
        };
        all.into_iter().filter(is_wanted).collect()
    }
}

/// Measures what `arguments` ask for and tells what came of it.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    if arguments.list {
        case::entries().for_each(|entry| anstream::println!("{:16} {}", entry.name, entry.about));
        return Ok(ExitCode::SUCCESS);
    }
    let until = Interruption::listen()?;
    let folder = tempfile::Builder::new().prefix("heapwright-bench-").tempdir().context("no room for inputs")?;
    let stage = Stage::new(folder.path(), arguments.share())?;
    let (cases, missing) = cases(arguments, &stage)?;
    let contenders = contender::all(&arguments.allocator);
    let rounds =
        Rounds { cases: &cases, contenders: &contenders, stage: &stage, rounds: arguments.rounds(), until: &until };
    let rows = rounds.hold();
    // Who reads the tables may leave before their end, and this process ends with them, without destructors.
    drop(folder);
    let interrupted = until.came();
    let suite = Suite { contenders: &contenders, rows: &rows };
    if arguments.json.as_deref().is_none_or(|path| path.as_os_str() != "-") {
        show::print(suite);
    }
    if !missing.is_empty() {
        anstream::eprintln!("heapwright: not on this machine: {}", missing.join(", "));
    }
    if let Some(path) = &arguments.json {
        let settings = Settings { rounds: arguments.rounds(), share: arguments.share(), interrupted };
        export::write(path, suite, settings, &missing)?;
    }
    Ok(verdict(&rows, interrupted))
}

/// What is to be run, and the names of the programs that are not there.
fn cases(arguments: &Arguments, stage: &Stage) -> Result<(Vec<Case>, Vec<String>)> {
    let (mut cases, mut missing) = (Vec::new(), Vec::new());
    for name in arguments.names() {
        match stage.case(name)? {
            Some(case) => cases.push(case),
            None => missing.push(name.to_owned()),
        }
    }
    Ok((cases, missing))
}

fn verdict(rows: &[Row], interrupted: bool) -> ExitCode {
    let failed = rows.iter().flat_map(|row| &row.cells).any(|cell| cell.failure.is_some());
    match (interrupted, failed) {
        (true, _) => ExitCode::from(INTERRUPTED),
        (false, true) => ExitCode::FAILURE,
        (false, false) => ExitCode::SUCCESS,
    }
}
