//! `heapwright bench malloc`: whole mallocs, as somebody meets them who preloads one.
//!
//! From the bottom up: `contender` (whose malloc), `figures` (what is measured), `process` (a program, started by the small launcher and
//! measured from there), `programs` and `case` (what there is to run), `rounds` (everybody in turns), `instructions` (counted by valgrind), `analysis` (what the
//! figures mean), `bars` (what the project has set itself), `show` and `export` (how it is told), `select` and `arguments` (what somebody wants). The
//! workloads themselves are in the crate `heapwright-bench`.

mod analysis;
mod arguments;
mod bars;
mod case;
mod contender;
mod export;
mod figures;
mod instructions;
mod process;
mod programs;
mod rounds;
mod select;
mod show;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use self::analysis::Suite;
pub use self::arguments::{Arguments, EXAMPLES};
use self::case::{Case, Stage};
use self::contender::{Contender, Role};
use self::export::{Findings, Settings};
use self::figures::Row;
use self::instructions::Instructions;
use self::rounds::Rounds;
use crate::compare::{INTERRUPTED, Interruption};

/// Measures what `arguments` ask for and tells what came of it.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    if arguments.list {
        case::entries().for_each(|entry| anstream::println!("{:16} {}", entry.name, entry.about));
        return Ok(ExitCode::SUCCESS);
    }
    let until = Interruption::listen()?;
    let contenders = arguments.contenders();
    let folder = tempfile::Builder::new().prefix("heapwright-bench-").tempdir().context("no room for inputs")?;
    let measured = measure(arguments, &contenders, folder.path(), &until);
    // Who reads the tables may leave before their end, and this process ends with them, without destructors.
    drop(folder);
    let Measured { rows, missing, instructions } = measured?;
    let suite = Suite { contenders: &contenders, rows: &rows };
    let bars = if arguments.bars { bars::judge(suite, &instructions) } else { Vec::new() };
    let interrupted = until.came();
    if arguments.json.as_deref().is_none_or(|path| path.as_os_str() != "-") {
        show::print(suite, &instructions, &bars);
    }
    complain(arguments, &contenders, &missing);
    if let Some(path) = &arguments.json {
        let settings = Settings { rounds: arguments.rounds(), share: arguments.shares().usual, interrupted };
        let findings = Findings { missing: &missing, instructions: &instructions, bars: &bars };
        export::write(path, suite, settings, findings)?;
    }
    Ok(match interrupted {
        true => ExitCode::from(INTERRUPTED),
        false if has_failures(suite, &instructions) || (arguments.fail && !bars::all_hold(&bars)) => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

/// What there is at the end.
struct Measured {
    rows: Vec<Row>,
    /// Programs that are not on this machine.
    missing: Vec<String>,
    instructions: Vec<Instructions>,
}

fn measure(arguments: &Arguments, contenders: &[Contender], folder: &Path, until: &Interruption) -> Result<Measured> {
    let stage = Stage::new(folder, arguments.shares())?;
    let tool = instructions::tool();
    if arguments.instructions && tool.is_none() {
        bail!(
            "instructions are counted by valgrind, which is not on this machine; bench/peers/make installs it with apt-get"
        );
    }
    let wanted = tool.filter(|_| arguments.instructions || arguments.bars);
    let count = |tool| instructions::count(stage.base(), tool, contenders, until);
    let mut measured = Measured { rows: Vec::new(), missing: Vec::new(), instructions: Vec::new() };
    if !arguments.instructions {
        let cases = cases(arguments, &stage, &mut measured.missing)?;
        let rounds = Rounds {
            cases: &cases,
            contenders,
            stage: &stage,
            rounds: arguments.rounds(),
            sleepers_once: arguments.sleepers_once(),
            until,
        };
        measured.rows = rounds.hold();
    }
    measured.instructions = wanted.as_deref().map_or_else(Vec::new, count);
    Ok(measured)
}

/// What is to be run; the names of programs that are not there go to `missing`.
fn cases(arguments: &Arguments, stage: &Stage, missing: &mut Vec<String>) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for name in arguments.names() {
        match stage.case(name)? {
            Some(case) => cases.push(case),
            None => missing.push(name.to_owned()),
        }
    }
    Ok(cases)
}

/// Says what should have been there.
fn complain(arguments: &Arguments, contenders: &[Contender], missing: &[String]) {
    if !missing.is_empty() {
        anstream::eprintln!("heapwright: not on this machine: {}", missing.join(", "));
    }
    if arguments.bars && instructions::tool().is_none() {
        anstream::eprintln!(
            "heapwright: no valgrind, and so no instructions; bench/peers/make installs it with apt-get"
        );
    }
    let absent = bars::absent(contenders);
    if arguments.bars && !absent.is_empty() {
        anstream::eprintln!(
            "heapwright: the best peer is the best of those that are here; {} is not (bench/peers/make builds them)",
            absent.join(", ")
        );
    }
}

/// Whether somebody has failed in a workload, or ours could not be counted. Not everybody else's malloc runs under valgrind.
fn has_failures(suite: Suite<'_>, instructions: &[Instructions]) -> bool {
    let mut cells = suite.rows.iter().flat_map(|row| &row.cells);
    let is_ours = |name: &str| suite.places(Role::Ours).any(|at| suite.contenders[at].name == name);
    let mut uncounted = instructions.iter().filter(|it| it.failure.is_some());
    cells.any(|cell| cell.failure.is_some()) || uncounted.any(|it| is_ours(&it.allocator))
}
