//! What `--json` writes: every run, as it was measured.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use super::analysis::{Mean, Suite};
use super::bars::Bar;
use super::figures::{Figures, Measure};
use super::instructions::Instructions;
use crate::compare::Machine;

/// The version of the form below.
const SCHEMA: u32 = 1;

/// How it was measured.
#[derive(Clone, Copy, Serialize)]
pub struct Settings {
    /// Rounds.
    pub rounds: u16,
    /// The share of all their work that our own workloads did, but for those that mostly sleep.
    pub share: f64,
    /// Whether somebody ended it.
    pub interrupted: bool,
}

/// What there is beside the rows.
#[derive(Clone, Copy)]
pub struct Findings<'a> {
    /// Programs that are not on this machine.
    pub missing: &'a [String],
    /// Of malloc and free.
    pub instructions: &'a [Instructions],
    /// The project's, if they were asked for.
    pub bars: &'a [Bar],
}

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    version: &'static str,
    machine: Machine,
    settings: Settings,
    allocators: Vec<Named<'a>>,
    missing: &'a [String],
    samples: Vec<Sample<'a>>,
    failures: Vec<Failure<'a>>,
    means: Vec<NamedMean<'a>>,
    instructions: &'a [Instructions],
    bars: &'a [Bar],
}

#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
    version: Option<String>,
    library: Option<String>,
}

#[derive(Serialize)]
struct Sample<'a> {
    workload: &'a str,
    allocator: &'a str,
    round: usize,
    #[serde(flatten)]
    figures: &'a Figures,
}

#[derive(Serialize)]
struct Failure<'a> {
    workload: &'a str,
    allocator: &'a str,
    why: &'a str,
}

#[derive(Serialize)]
struct NamedMean<'a> {
    measure: Measure,
    allocator: &'a str,
    #[serde(flatten)]
    mean: Mean,
}

/// Writes all of it to `path`, or to standard output if that is `-`.
///
/// # Errors
/// When it cannot be written.
pub fn write(path: &Path, suite: Suite<'_>, settings: Settings, findings: Findings<'_>) -> Result<()> {
    let document = document(suite, settings, findings);
    if path == Path::new("-") {
        return print(io::stdout().lock(), &document).context("cannot write to standard output");
    }
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    print(BufWriter::new(file), &document).with_context(|| format!("cannot write {}", path.display()))
}

fn print(mut out: impl Write, document: &Document) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut out, document)?;
    writeln!(out)?;
    out.flush()
}

fn document<'a>(suite: Suite<'a>, settings: Settings, findings: Findings<'a>) -> Document<'a> {
    let library = |at: usize| suite.contenders[at].allocator.library().ok().flatten();
    let cells = || {
        suite.rows.iter().flat_map(move |row| {
            suite.contenders.iter().zip(&row.cells).map(move |(contender, cell)| (row, contender, cell))
        })
    };
    let places = 0..suite.contenders.len();
    let named = |at: usize| Named {
        name: &suite.contenders[at].name,
        version: suite.contenders[at].version(),
        library: library(at).map(|path| path.display().to_string()),
    };
    Document {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        machine: Machine::this(),
        settings,
        allocators: places.clone().map(named).collect(),
        missing: findings.missing,
        samples: cells()
            .flat_map(|(row, contender, cell)| {
                cell.runs.iter().enumerate().map(|(round, figures)| Sample {
                    workload: &row.name,
                    allocator: &contender.name,
                    round,
                    figures,
                })
            })
            .collect(),
        failures: cells()
            .filter_map(|(row, contender, cell)| {
                Some(Failure { workload: &row.name, allocator: &contender.name, why: cell.failure.as_deref()? })
            })
            .collect(),
        means: Measure::ALL
            .into_iter()
            .flat_map(|measure| places.clone().map(move |at| (measure, at)))
            .filter_map(|(measure, at)| {
                Some(NamedMean { measure, allocator: &suite.contenders[at].name, mean: suite.mean(at, measure)? })
            })
            .collect(),
        instructions: findings.instructions,
        bars: findings.bars,
    }
}
