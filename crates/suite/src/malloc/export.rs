//! The document of `--json`: every run.

use std::io::{self, Write};
use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use super::analysis::{Mean, Suite};
use super::figures::{Figures, Measure};
use super::instructions::Instructions;
use heapwright_host::destination::{Contents, Destination};
use heapwright_host::machine::Machine;

/// The version of the document's schema.
const SCHEMA: u32 = 1;

/// The settings of a measurement.
#[derive(Clone, Copy, Serialize)]
pub struct Settings {
    /// Number of rounds.
    pub rounds: u16,
    /// The share of their full work that our own workloads did, except for those that mostly sleep.
    pub share: f64,
    /// Whether Ctrl-C ended it.
    pub interrupted: bool,
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

/// Writes the document to `path`, or to standard output if that is `-`.
///
/// # Errors
/// When it cannot be written.
pub fn write(
    path: &Path,
    suite: Suite<'_>,
    missing: &[String],
    instructions: &[Instructions],
    settings: Settings,
) -> Result<()> {
    let mut text = Vec::new();
    print(&mut text, &document(suite, missing, instructions, settings))?;
    Destination::of(path, Contents::Other, &[])?.write(&text)
}

fn print(mut out: impl Write, document: &Document) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut out, document)?;
    writeln!(out)?;
    out.flush()
}

fn document<'a>(
    suite: Suite<'a>,
    missing: &'a [String],
    instructions: &'a [Instructions],
    settings: Settings,
) -> Document<'a> {
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
        missing,
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
        instructions,
    }
}
