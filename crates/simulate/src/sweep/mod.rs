//! `heapwright sweep`: every combination of policies, rules and regions, a row each.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::Args;
use clap::builder::PossibleValuesParser;
use heapwright_placement::PolicyKind;
use heapwright_replay::{Outcome, Recording, ReplayError};

use heapwright_host::destination::{Contents, Destination};
use heapwright_host::files::ensure_rereadable;
use heapwright_host::names::Shown;
use heapwright_host::parallel;
use heapwright_show::number;
use heapwright_show::output::warn_of_part;
use heapwright_show::progress::Progress;
use heapwright_show::usage::Misuse;

mod file;
mod grid;
mod lists;
pub mod merge;
mod parquet;
mod row;
mod typed;

use file::Rows;
use grid::{Grid, Point, TraceName};
use lists::Lists;
use row::Sweep;
use typed::Shard;

/// The examples at the end of the help text.
pub const EXAMPLES: &str = "\
Examples:
  heapwright sweep gcc.hwt -o gcc.csv                                        every policy
  heapwright sweep *.hwt --granule 8,16 --min-remainder 1,32,64 -o all.parquet
  heapwright sweep gcc.hwt --policy random --seed 1..20 --growth extend,pages:64KiB -o random.csv
  heapwright sweep gcc.hwt --region 8M,12M,16M -o regions.csv                how many requests are refused
  heapwright sweep gcc.hwt --rules report000,report003 --merging both,deferred -o rules.csv
  heapwright sweep gcc.hwt -o gcc.csv --resume                               go on after an interruption
  heapwright sweep *.hwt --shard $SLURM_ARRAY_TASK_ID/16 -o part-$SLURM_ARRAY_TASK_ID.csv     one of 0 to 15
  heapwright merge part-*.csv -o all.parquet

Lists are separated by commas, ranges of seeds include both ends. The points of a sweep are numbered in an order that
depends on nothing but its parameters; point i belongs to shard i mod N. A combination of rules
that makes no sense has a row that says why, without figures.

Exit code: 0, or 1 when a trace cannot be read, rows cannot be written, or the system has no memory for a point:
the rows before it are kept for --resume.";

/// The arguments of `sweep`.
#[derive(Args)]
pub struct Arguments {
    /// The traces, as written by `heapwright record` or `heapwright import`.
    #[arg(value_name = "TRACE", required = true)]
    pub traces: Vec<PathBuf>,

    /// Policies, separated by commas; may be given several times. All of them if none is given.
    #[arg(long, short, value_name = "POLICIES", value_delimiter = ',',
          value_parser = PossibleValuesParser::new(PolicyKind::ALL.map(PolicyKind::name)))]
    pub policy: Vec<String>,

    /// The rules.
    #[command(flatten)]
    pub rules: Lists,

    /// Seeds of random fit, and ranges of them, as in 1..20.
    #[arg(long, value_name = "SEEDS", default_value = "1")]
    pub seed: String,

    /// The file to write; its name ends in .csv or .parquet.
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,

    /// Run one shard of N, K from 0 to N-1: the points whose number modulo N is K.
    #[arg(long, value_name = "K/N", value_parser = typed::shard, default_value = "0/1")]
    pub shard: Shard,

    /// Continue an interrupted sweep with the same arguments.
    #[arg(long)]
    pub resume: bool,

    /// Number of threads [default: one per processor].
    #[arg(long, short, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
}

/// The most memory for events; traces beyond it are read again for every point.
const ROOM: usize = 256 << 20;

/// The most points that a sweep may have. More would take years.
const MOST_POINTS: usize = 100_000_000;

/// Sweeps.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    arguments.traces.iter().try_for_each(|trace| ensure_rereadable(trace))?;
    let rules = arguments.rules.files()?;
    let sources: Vec<&Path> = arguments.traces.iter().chain(&rules).map(PathBuf::as_path).collect();
    for written in [&arguments.output, &file::partial(&arguments.output)] {
        Destination::of(written, Contents::Other, &sources)?;
    }
    let grid = grid(arguments)?;
    let all = grid.points();
    let sweep = Sweep { grid: &grid, fingerprint: grid.fingerprint()?, points: all.len() };
    let mine: Vec<usize> = (arguments.shard.this..all.len()).step_by(arguments.shard.of).collect();
    // What cannot be read leaves no output behind.
    let recordings = recordings(arguments)?;
    let begun = if arguments.resume {
        Rows::resume(&arguments.output, &sweep.fingerprint, &mine)?
    } else {
        Some((Rows::begin(&arguments.output)?, 0))
    };
    let Some((mut rows, done)) = begun else {
        heapwright_show::println!("{}: all rows are there already", arguments.output.shown());
        return Ok(ExitCode::SUCCESS);
    };
    let left = &mine[done..];
    let progress = Progress::new("points", left.len());
    let simulate = |at: usize| {
        let point = &all[left[at]];
        outcome(&recordings, point).with_context(|| {
            format!("{}: point {} ({})", arguments.traces[point.trace].shown(), left[at], point.model.policy.name())
        })
    };
    let mut reasons = Vec::new();
    parallel::in_order(arguments.jobs.unwrap_or_else(parallel::cores), 0..left.len(), simulate, |at, outcome| {
        let (number, point) = (left[at], &all[left[at]]);
        reasons.extend(outcome.as_ref().err().cloned());
        progress.step();
        rows.put(&sweep.row(number, point, &outcome))
    })?;
    rows.finish()?;
    drop(progress);
    summarize(arguments, mine.len(), done, &reasons);
    let is_in_vain = !mine.is_empty() && reasons.len() == mine.len();
    Ok(if is_in_vain { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn grid(arguments: &Arguments) -> Result<Grid> {
    let grid = Grid {
        traces: arguments.traces.iter().map(|path| TraceName::of(path)).collect::<Result<_>>()?,
        policies: arguments.policy.clone(),
        sets: arguments.rules.sets()?,
        seeds: typed::seeds(&arguments.seed).map_err(|error| Misuse(format!("--seed: {error}")))?,
    };
    ensure!(grid.most_points() <= MOST_POINTS, "these are more than {MOST_POINTS} points: sweep in parts");
    Ok(grid)
}

/// The traces, held in memory as far as there is room.
fn recordings(arguments: &Arguments) -> Result<Vec<Recording>> {
    let mut room = ROOM;
    let mut recordings = Vec::new();
    for path in &arguments.traces {
        let recording = Recording::open(path, room).with_context(|| path.shown().into_owned())?;
        warn_of_part(path, recording.damage(), recording.incomplete());
        room -= recording.bytes().min(room);
        recordings.push(recording);
    }
    Ok(recordings)
}

/// Returns the outcome of a point, or the reason why there can be no such heap. An error concerns the trace or the
/// system: a later run may have the memory that was refused.
fn outcome(recordings: &[Recording], point: &Point) -> Result<Result<Outcome, String>, ReplayError> {
    if let Some(refusal) = &point.refusal {
        return Ok(Err(refusal.clone()));
    }
    match recordings[point.trace].replay(&point.model) {
        Err(ReplayError::Rules(error)) => Ok(Err(ReplayError::Rules(error).to_string())),
        outcome => outcome.map(Ok),
    }
}

fn summarize(arguments: &Arguments, rows: usize, before: usize, reasons: &[String]) {
    let earlier =
        if before > 0 { format!(", {} of them from before", number::grouped(before as u64)) } else { String::new() };
    heapwright_show::println!("{}: {}{earlier}", arguments.output.shown(), number::counted(rows as u64, "row"));
    let mut kinds: Vec<&String> = reasons.iter().collect();
    kinds.sort_unstable();
    for same in kinds.chunk_by(|a, b| a == b) {
        heapwright_show::println!("not simulated: {}: {}", number::counted(same.len() as u64, "point"), same[0]);
    }
}
