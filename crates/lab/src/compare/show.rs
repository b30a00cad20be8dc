//! A comparison for people.

use terminal_size::Width;

use super::baseline;
use super::comparison::{Comparison, Row};
use super::estimate::Estimate;
use super::grid::{Column, Grid, MISSING};
use super::marks::{Mark, marks};
use super::metric::{Metric, Origin};
use crate::table::HEADING;

/// How wide a table may be where nobody says.
const USUAL_WIDTH: usize = 100;

/// Running text is not wider, however wide the terminal.
const TEXT_WIDTH: usize = 100;

/// What may have changed since a baseline.
const CHANGES: [Metric; 6] =
    [Metric::Time, Metric::Peak, Metric::Average, Metric::P99, Metric::Heap, Metric::ExternalMean];

/// The width of the terminal, or what `COLUMNS` says.
pub fn width() -> usize {
    let terminal = terminal_size::terminal_size_of(std::io::stdout()).map(|(Width(columns), _)| usize::from(columns));
    let said = || std::env::var("COLUMNS").ok()?.parse().ok();
    terminal.or_else(said).filter(|&columns| columns > 0).unwrap_or(USUAL_WIDTH)
}

/// Prints everything, in tables of at most `width` characters.
pub fn print(comparison: &Comparison, baseline: Option<&Comparison>, columns: &[Metric], width: usize) {
    anstream::println!("{HEADING}{}{HEADING:#}", wrapped(&comparison.headline(), width));
    tables(comparison, columns, width);
    if let Some(baseline) = baseline {
        changes(comparison, baseline, width);
    }
    if let Some(recommendation) = &comparison.recommendation {
        anstream::println!("\n{HEADING}{}{HEADING:#}", wrapped(&recommendation.text, width));
    }
    let remarks = comparison.describe_fidelity().into_iter().chain(comparison.notes()).chain([comparison.legend()]);
    remarks.for_each(|text| anstream::println!("\n{}", wrapped(&text, width)));
}

fn wrapped(text: &str, width: usize) -> String {
    textwrap::fill(text, width.min(TEXT_WIDTH))
}

/// One table if it fits, else one for each origin of figures, cut where that does not fit either.
fn tables(comparison: &Comparison, columns: &[Metric], width: usize) {
    let whole = grid(comparison, "", columns);
    if whole.width() <= width {
        return print_parts(&whole, width);
    }
    for origin in Origin::ALL {
        let own: Vec<Metric> = columns.iter().copied().filter(|metric| metric.origin() == origin).collect();
        print_parts(&grid(comparison, origin.describe(), &own), width);
    }
}

fn print_parts(grid: &Grid, width: usize) {
    grid.parts(width).iter().for_each(|part| anstream::print!("\n{part}"));
}

fn grid<'a>(comparison: &Comparison, heading: &'a str, columns: &[Metric]) -> Grid<'a> {
    let column = |&metric: &Metric| {
        let cells = comparison.rows.iter().map(|row| cell(row, metric));
        Column { heading: metric.heading().to_owned(), cells: cells.zip(marks(comparison, metric)).collect() }
    };
    Grid { heading, names: names(comparison), columns: columns.iter().map(column).collect() }
}

fn names(comparison: &Comparison) -> Vec<String> {
    comparison.rows.iter().map(|row| row.name.clone()).collect()
}

/// A figure; of the ratio to the system's time, which decides, with its interval.
fn cell(row: &Row, metric: Metric) -> String {
    match row.figures.get(&metric) {
        None => MISSING.to_owned(),
        Some(estimate) if metric == Metric::TimeOverSystem => with_interval(estimate),
        Some(estimate) => metric.show(estimate.median),
    }
}

/// A ratio, as in "0.82x [0.79, 0.85]".
fn with_interval(ratio: &Estimate) -> String {
    match ratio.interval {
        Some([low, high]) => format!("{:.2}x [{low:.2}, {high:.2}]", ratio.median),
        None => format!("{:.2}x", ratio.median),
    }
}

/// What has changed since the baseline, as ratios.
fn changes(comparison: &Comparison, before: &Comparison, width: usize) {
    let column = |metric: Metric| {
        let change = |row| baseline::change(comparison, before, row, metric).as_ref().map(with_interval);
        let cells = comparison.rows.iter().map(|row| (change(row).unwrap_or_else(|| MISSING.to_owned()), Mark::None));
        Column { heading: metric.name().to_owned(), cells: cells.collect() }
    };
    let columns = CHANGES.into_iter().map(column).collect();
    print_parts(&Grid { heading: "over baseline", names: names(comparison), columns }, width);
    baseline::differences(comparison, before).iter().for_each(|text| anstream::println!("{}", wrapped(text, width)));
}
