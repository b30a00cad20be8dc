//! `cargo xtask surroundings`: the bars of limits, of bounded operations and of retained memory, measured for the
//! drop-in library against the system's malloc. The conditions that hold or do not are tests: `surroundings` in
//! `crates/malloc/tests`, which uses the same programs.

mod figure;
mod measured;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use heapwright_allocators::{policy, preload};
use heapwright_host::interruption::{self, Interruption};
use heapwright_host::temporary::Folder;
use heapwright_show::number;
use heapwright_show::results;
use heapwright_show::table::{Table, ratio};
use heapwright_suite::malloc::{Instructions, Role, Selection, Subject, has_valgrind};
use serde::Serialize;

use self::figure::{Bar, Figure, RUNS, Run, Unit};
use self::measured::{Contender, Programs, Samples};

/// The instructions of a call.
type OfCall = fn(&Instructions) -> Option<f64>;

/// The calls whose instructions are counted, and the most that they may take.
const CALLS: [(&str, OfCall, f64); 2] = [("malloc", |it| it.malloc, 15.0), ("free", |it| it.free, 21.0)];

/// The arguments of `cargo xtask surroundings`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Number of rounds; each runs every program under the system's malloc, ours, and the system's again
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,

    /// Only figures whose names contain this text
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,

    /// The library to measure; the one that the command carries by default
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,

    /// A variable that chooses the heap of the library, e.g. HEAPWRIGHT_HARDEN=1
    #[arg(long, value_name = "NAME=VALUE")]
    set: Option<String>,

    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  cargo xtask surroundings                              every figure, in some minutes
  cargo xtask surroundings --only vectors --rounds 15   one figure, with less noise
  cargo xtask surroundings --set HEAPWRIGHT_POLICY=best the same for a policy

The instructions of malloc and free are counted if valgrind is installed, unless --library or --set is given.

Exit code: 0 when every bar holds, 1 when one fails or was not measured, 130 after Ctrl-C.";

/// A measured figure.
#[derive(Debug, Serialize)]
struct Row {
    what: String,
    #[serde(skip)]
    unit: Unit,
    /// The median under the system's malloc.
    system: Option<f64>,
    /// The median under our library.
    ours: Option<f64>,
    /// The median under the system's malloc, measured once more.
    again: Option<f64>,
    /// The bar in words.
    bar: String,
    /// Whether it holds; null without a bar.
    holds: Option<bool>,
    /// Why there is no figure.
    failure: Option<String>,
}

/// Measures the selected figures and judges their bars.
///
/// # Errors
/// When the programs cannot be compiled or the library cannot be used.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let is_selected = |run: &&Run| run.figures.iter().any(|figure| is_part(arguments.only.as_deref(), figure.what));
    let runs: Vec<&Run> = RUNS.iter().filter(is_selected).collect();
    let until = Interruption::listen()?;
    let folder = Folder::new("surroundings")?;
    let library = preload::library(arguments.library.as_deref())?;
    let programs = Programs::compile(&runs, folder.path(), library, arguments.set.clone())?;
    let samples = measured::measure(&programs, &runs, arguments.rounds, &until);
    let mut rows: Vec<Row> = runs.iter().zip(&samples).flat_map(|(run, samples)| rows(run, samples)).collect();
    rows.retain(|row| is_part(arguments.only.as_deref(), &row.what));
    let counts = arguments.library.is_none() && arguments.set.is_none() && !until.came();
    if counts && has_valgrind() && is_part(arguments.only.as_deref(), "instructions") {
        rows.extend(instructions()?);
    }
    drop(folder);
    if arguments.json {
        results::print(&rows)?;
    } else {
        print(&rows);
    }
    Ok(match until.came() {
        true => interruption::exit_code(),
        false if rows.iter().all(|row| row.holds != Some(false)) => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn is_part(text: Option<&str>, of: &str) -> bool {
    text.is_none_or(|text| of.contains(text))
}

/// Returns the rows of a run.
fn rows(run: &'static Run, samples: &Samples) -> Vec<Row> {
    run.figures.iter().map(|figure| row(figure, samples)).collect()
}

fn row(figure: &'static Figure, samples: &Samples) -> Row {
    let median = |contender| samples.median(contender, figure.name);
    let (system, ours) = (median(Contender::System), median(Contender::Ours));
    let measured = ours.zip(system).map_or_else(
        // A figure that is missing does not hold.
        || (figure.bar != Bar::None).then_some(false),
        |(ours, system)| figure.bar.holds(ours, system),
    );
    let failure = samples.failure(Contender::Ours).or_else(|| samples.failure(Contender::System));
    Row {
        what: figure.what.to_owned(),
        unit: figure.unit,
        system,
        ours,
        again: median(Contender::Again),
        bar: in_words(figure.bar, figure.unit),
        holds: measured,
        failure: failure.map(str::to_owned),
    }
}

/// Counts the instructions of malloc and of free, at several sizes up to 1 KiB.
fn instructions() -> Result<Vec<Row>> {
    let selection = Selection::default();
    let contenders = selection.contenders(|name| name == policy::CACHED);
    let measured = heapwright_suite::malloc::measure(&selection, None, contenders, Subject::Instructions)?;
    let at = |role: Role, bytes: usize| {
        let name = &measured.contenders.iter().find(|contender| contender.role == role)?.name;
        measured.instructions.iter().find(|it| it.allocator == *name && it.bytes == bytes)
    };
    let sizes: BTreeSet<usize> = measured.instructions.iter().map(|it| it.bytes).collect();
    let row = |bytes: usize, (call, of_call, limit): (&str, OfCall, f64)| {
        let (system, ours) = (at(Role::Baseline, bytes), at(Role::Ours, bytes));
        let count = ours.and_then(of_call);
        Row {
            what: format!("instructions, {call}({bytes})"),
            unit: Unit::Plain,
            system: system.and_then(of_call),
            ours: count,
            again: None,
            bar: in_words(Bar::AtMost(limit), Unit::Plain),
            // Averages over many calls: a few of them fill or drain a list.
            holds: Some(count.is_some_and(|count| count.floor() <= limit)),
            failure: ours.and_then(|it| it.failure.clone()),
        }
    };
    Ok(sizes.into_iter().flat_map(|bytes| CALLS.map(|call| row(bytes, call))).collect())
}

fn in_words(bar: Bar, unit: Unit) -> String {
    match bar {
        Bar::AtLeast(least) => format!(">= {}", show(least, unit)),
        Bar::AtMost(most) => format!("<= {}", show(most, unit)),
        Bar::OverAtMost(most) => format!("<= +{}", show(most, unit)),
        Bar::RatioAtMost(most) => format!("<= {most}x"),
        Bar::RatioAtLeast(least) => format!(">= {least}x"),
        Bar::None => String::new(),
    }
}

fn show(figure: f64, unit: Unit) -> String {
    match unit {
        Unit::Bytes => number::bytes(figure as u64),
        Unit::Microseconds => number::seconds(figure / 1e6),
        Unit::Plain => number::short(figure),
    }
}

/// Prints the rows as a table, and below it why figures are missing.
fn print(rows: &[Row]) {
    let mut table = Table::new(["figure", "system", "ours", "ours/system", "A/A", "bar", ""]);
    for row in rows {
        let shown = |figure: Option<f64>| figure.map_or_else(|| "-".to_owned(), |figure| show(figure, row.unit));
        let over = |figure: Option<f64>| match figure.zip(row.system.filter(|&system| system > 0.0)) {
            Some((figure, system)) => ratio(figure / system),
            None => "-".to_owned(),
        };
        let verdict = match row.holds {
            Some(true) => "holds",
            Some(false) => "FAILS",
            None => "",
        };
        table.row([
            row.what.clone(),
            shown(row.system),
            shown(row.ours),
            over(row.ours),
            over(row.again),
            row.bar.clone(),
            verdict.to_owned(),
        ]);
    }
    heapwright_show::print!("{table}");
    for row in rows {
        if let Some(failure) = &row.failure {
            heapwright_show::println!("{}: {failure}", row.what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_judged_by_ours_and_the_system() {
        assert_eq!(Bar::AtLeast(2.0).holds(2.0, 9.0), Some(true));
        assert_eq!(Bar::AtMost(2.0).holds(2.1, 9.0), Some(false));
        assert_eq!(Bar::OverAtMost(2.0).holds(11.0, 9.0), Some(true));
        assert_eq!(Bar::OverAtMost(2.0).holds(11.1, 9.0), Some(false));
        assert_eq!(Bar::RatioAtMost(1.2).holds(12.1, 10.0), Some(false));
        assert_eq!(Bar::RatioAtLeast(0.9).holds(9.0, 10.0), Some(true));
        assert_eq!(Bar::None.holds(1.0, 1.0), None);
    }

    #[test]
    fn a_figure_that_was_not_measured_does_not_hold() {
        let of_no_run: Vec<Row> = RUNS.iter().flat_map(|run| rows(run, &Samples::default())).collect();
        assert!(of_no_run.len() > 15);
        assert!(of_no_run.iter().all(|row| row.holds.is_none() == row.bar.is_empty() && row.holds != Some(true)));
    }

    #[test]
    fn every_figure_has_a_name_of_its_own() {
        let mut names: Vec<&str> = RUNS.iter().flat_map(|run| run.figures).map(|figure| figure.what).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
