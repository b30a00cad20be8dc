//! `heapwright reproduce`: runs the published experiments again and compares every figure with ours.

pub mod arguments;
mod as_published;
mod buddy_or_list;
pub mod child;
mod fits;
mod pool;
mod random_fit;
mod render;
pub mod row;
mod segment;
mod times;
mod timing;

use std::process::ExitCode;

use anyhow::Result;

use self::row::Row;
use crate::arguments::Experiment;
use crate::arguments::ReproduceArgs;
use heapwright_show::results;

/// Which results are computed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// Counts only, which are the same every time.
    Counts,
    /// Counts, and times from this many rounds.
    CountsAndTimes(usize),
}

/// Runs report 002's second experiment for `rounds` rounds. Returns the ratios of its times to malloc's, by size (rows)
/// and case (columns).
pub fn segment_ratios(rounds: usize) -> Vec<Row> {
    segment::times::rows(rounds).into_iter().filter(|row| row.table == segment::times::RATIOS).collect()
}

/// Runs the experiments and prints their tables.
pub fn run(args: &ReproduceArgs) -> Result<ExitCode> {
    let wanted = if args.no_times { Wanted::Counts } else { Wanted::CountsAndTimes(args.rounds.into()) };
    let mut rows = Vec::new();
    for &experiment in chosen(args) {
        let more = rows_of(experiment, args.seeds.into(), wanted)?;
        if !args.json {
            render::print(experiment, &more);
        }
        rows.extend(more);
    }
    if args.json {
        results::print(&rows)?;
    } else if !rows.is_empty() {
        render::print_summary(&rows);
    }
    Ok(verdict_on(&rows))
}

fn chosen(args: &ReproduceArgs) -> &[Experiment] {
    if args.experiments.is_empty() { &Experiment::ALL } else { &args.experiments }
}

fn rows_of(experiment: Experiment, seeds: usize, wanted: Wanted) -> Result<Vec<Row>> {
    let counts = match experiment {
        Experiment::Fits => fits::counts()?,
        Experiment::Shared => segment::fragmentation(seeds)?,
        Experiment::Pool => [pool::table()?, random_fit::tables()?, buddy_or_list::tables()?].concat(),
        Experiment::Arena | Experiment::Mappings => Vec::new(),
    };
    let Wanted::CountsAndTimes(rounds) = wanted else { return Ok(counts) };
    let times = match experiment {
        Experiment::Fits => times::FIGURE_6.run(rounds),
        Experiment::Arena => times::ARENA.run(rounds),
        Experiment::Shared => segment::times::rows(rounds),
        Experiment::Mappings => times::PAIRS.run(rounds),
        Experiment::Pool => Vec::new(),
    };
    Ok([counts, times].concat())
}

/// Prints the rows whose verdict is not the expected one. The command fails if there are any.
fn verdict_on(rows: &[Row]) -> ExitCode {
    let failed: Vec<&Row> = rows.iter().filter(|row| !row.holds()).collect();
    for row in &failed {
        let expected = row.expected.map_or("", |verdict| verdict.name());
        heapwright_show::eprintln!(
            "heapwright: report {}, {}: {}, {}: should be {expected}",
            row.experiment,
            row.table,
            row.row,
            row.column
        );
    }
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
