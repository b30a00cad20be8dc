//! The printed tables: each published figure above ours.

use std::collections::BTreeSet;

use super::row::{Figure, Row, Verdict};
use super::segment;
use super::timing::{LEGEND, SYSTEM};
use crate::arguments::Experiment;
use heapwright_show::number;
use heapwright_show::table::{HEADING, Table, bar_chart, ratio};
use heapwright_show::terminal::{fitted, fitted_below};

/// The column of timing tables that is drawn as a bar chart.
const DRAWN: &str = "untouched, over system";

/// Prints all tables of an experiment.
pub fn print(experiment: Experiment, rows: &[Row]) {
    let heading = format!("Report {}: {}", experiment.number(), experiment.subject());
    heapwright_show::println!("{HEADING}{}{HEADING:#}\n", fitted(&heading));
    if rows.is_empty() {
        heapwright_show::println!("Times only, which --no-times leaves out.\n");
    }
    if experiment == Experiment::Shared {
        print_legend(segment::LEGEND);
    }
    if rows.iter().any(|row| row.unit == "seconds") {
        let legend = if experiment == Experiment::Shared { segment::times::LEGEND } else { LEGEND };
        print_legend(legend);
    }
    for table in in_order(rows, |row| &row.table) {
        print_table(table, &rows.iter().filter(|row| row.table == table).collect::<Vec<_>>());
    }
}

fn print_legend(legend: &str) {
    legend.lines().for_each(|line| heapwright_show::println!("{}", fitted(line)));
    heapwright_show::println!();
}

/// Prints the number of figures per verdict, and how many of the required verdicts hold.
pub fn print_summary(rows: &[Row]) {
    let count = |verdict| rows.iter().filter(|row| row.verdict == Some(verdict)).count();
    let [exact, within, differ, defect] =
        [Verdict::Exact, Verdict::Within, Verdict::Differs, Verdict::Defect].map(count);
    let checked = rows.iter().filter(|row| row.expected.is_some()).count();
    let held = rows.iter().filter(|row| row.expected.is_some() && row.holds()).count();
    heapwright_show::println!("{HEADING}In all{HEADING:#}");
    let counts = format!("{exact} exact, {within} within, {differ} differ, {defect} come from a defect.");
    let checks = format!("Of the {checked} figures that must come out on every machine, {held} did.");
    heapwright_show::println!("{}\n{}", fitted(&counts), fitted(&checks));
}

fn print_table(name: &str, rows: &[&Row]) {
    let columns = in_order(rows.iter().copied(), |row| &row.column);
    let lines = in_order(rows.iter().copied(), |row| &row.row);
    let compared = rows.iter().any(|row| row.published.is_some());
    let mut table = Table::new(["", ""].into_iter().chain(columns.iter().copied())).named_by(2);
    for line in lines {
        let cells: Vec<Option<&Row>> = columns
            .iter()
            .map(|column| rows.iter().find(|row| row.row == line && row.column == *column).copied())
            .collect();
        let mut label = line;
        for (what, show) in aspects(&cells, compared) {
            let figures = cells.iter().map(|cell| cell.map_or_else(String::new, show));
            table.row([label.to_owned(), what.to_owned()].into_iter().chain(figures));
            label = "";
        }
    }
    heapwright_show::println!("{HEADING}{}{HEADING:#}\n{table}", fitted(name));
    print_chart(rows);
    print_notes(rows);
}

/// One of the lines of a row: its name, and the text for a cell.
type Aspect = (&'static str, fn(&Row) -> String);

/// Returns the lines for these cells: the published figure and ours, and more for a distribution.
fn aspects(cells: &[Option<&Row>], compared: bool) -> Vec<Aspect> {
    let any = |is: fn(&Row) -> bool| cells.iter().flatten().any(|row| is(row));
    let mut aspects: Vec<Aspect> = Vec::new();
    if any(|row| row.published.is_some()) {
        aspects.push(("published", published_figure));
    }
    if !any(Row::is_distribution) {
        aspects.push((if compared { "ours" } else { "" }, our_figure));
        return aspects;
    }
    aspects.push(("our mean", |row| row.ours.map_or_else(String::new, |mean| show(mean, row.unit))));
    aspects.push(("99 % of ours", range_of_ours));
    if any(|row| row.percentile.is_some()) {
        aspects.push(("published at", place_among_ours));
    }
    if any(|row| row.theory.is_some()) {
        aspects.push(("in theory", computed_mean));
    }
    aspects
}

/// Formats a mean in the unit of a row of counts.
fn in_unit_of(row: &Row, value: f64) -> String {
    match row.ours {
        Some(Figure::Count(_)) => number::grouped(value.round() as u64),
        _ => show(Figure::Real(value), row.unit),
    }
}

fn range_of_ours(row: &Row) -> String {
    row.spread.map_or_else(String::new, |[low, high]| format!("{} to {}", in_unit_of(row, low), in_unit_of(row, high)))
}

fn place_among_ours(row: &Row) -> String {
    let place = row.percentile.map_or_else(String::new, |percentile| format!("p{percentile:.0}"));
    row.verdict.map_or_else(|| place.clone(), |verdict| format!("{place} {}", verdict.name()))
}

/// Formats our figure, with the verdict where there is no published figure.
fn computed_mean(row: &Row) -> String {
    let mean = row.theory.map_or_else(String::new, |theory| in_unit_of(row, theory));
    match row.verdict.filter(|_| row.percentile.is_none()) {
        Some(verdict) => format!("{mean} {}", verdict.name()),
        None => mean,
    }
}

fn published_figure(row: &Row) -> String {
    row.published.map_or_else(String::new, |figure| show(figure, row.unit))
}

fn our_figure(row: &Row) -> String {
    let mut text = match (row.ours, row.percentile) {
        (_, Some(percentile)) => format!("p{percentile:.0}"),
        (Some(ours), None) => show(ours, row.unit),
        (None, None) => return "not measured".to_owned(),
    };
    if let (Some([low, high]), Some(ours)) = (row.spread, row.ours) {
        text += &match row.unit {
            "seconds" | "ratio" => format!(" ±{:.0} %", (high - low) / 2.0 / ours.as_f64() * 100.0),
            _ => format!(" [{} to {}]", number::short(low), number::short(high)),
        };
    }
    match row.verdict {
        Some(verdict) => format!("{text} {}", verdict.name()),
        None => text,
    }
}

fn show(figure: Figure, unit: &str) -> String {
    match (figure, unit) {
        (Figure::Count(count), _) => number::grouped(count),
        (Figure::Real(seconds), "seconds") => number::seconds(seconds),
        (Figure::Real(value), "ratio") => ratio(value),
        (Figure::Real(value), "percent") => format!("{value:.2} %"),
        // The reports print four decimals.
        (Figure::Real(value), _) => format!("{value:.4}").trim_end_matches('0').trim_end_matches('.').to_owned(),
    }
}

/// Prints a bar chart for a table of times.
fn print_chart(rows: &[&Row]) {
    let drawn = rows.iter().filter(|row| row.column == DRAWN);
    let bars: Vec<(&str, f64)> = drawn.filter_map(|row| Some((row.row.as_str(), row.ours?.as_f64()))).collect();
    if !bars.is_empty() {
        heapwright_show::println!("time over {SYSTEM} malloc, untouched\n{}", bar_chart(bars, ratio));
    }
}

/// Prints each note once.
fn print_notes(rows: &[&Row]) {
    let compared = rows.iter().any(|row| row.verdict.is_some());
    let mut said = BTreeSet::new();
    for row in rows.iter().filter(|row| !row.note.is_empty() && said.insert(row.note.as_str())) {
        if compared {
            let verdict = row.verdict.filter(|verdict| *verdict != Verdict::Exact).map_or("note", Verdict::name);
            let note = format!("{verdict} ({}, {}): {}", row.row, row.column, row.note);
            heapwright_show::println!("{}", fitted_below(&note));
        } else {
            heapwright_show::println!("{}", fitted_below(&row.note));
        }
    }
    if !said.is_empty() {
        heapwright_show::println!();
    }
}

/// Returns the distinct names in `rows`, in order of first appearance.
fn in_order<'a>(rows: impl IntoIterator<Item = &'a Row>, name: impl Fn(&'a Row) -> &'a String) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        let name = name(row).as_str();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}
