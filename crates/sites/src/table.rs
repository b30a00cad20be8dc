//! The table of call sites on the terminal.

use heapwright_recording::sampling::Sampling;
use heapwright_show::number::{bytes, counted, grouped};
use heapwright_show::table::{Cell, Side, Table};
use heapwright_show::terminal;

use crate::analysis::Analysis;
use crate::arguments::Arguments;
use crate::rows::{Group, Row};
use crate::tally::Measure;

/// Number of characters of a name that are shown where the width of the terminal is not known.
const USUAL_NAME: usize = 160;

/// The fewest characters of a name that are shown.
const LEAST_NAME: usize = 40;

/// Width of the columns of figures, about.
const FIGURES: usize = 90;

/// What a snapshot does not say.
pub const SNAPSHOT: &str =
    "A snapshot: what is held is known; never freed, temporary, calls and churn say nothing about the program.";

/// Returns what was read, in one line: events, and the totals of all blocks.
pub fn heading(analysis: &Analysis) -> String {
    let Analysis { file, ledger, .. } = analysis;
    let total = &ledger.total;
    let (at, time) = ledger.moment;
    let time = time.map_or_else(String::new, |time| format!(", {:.3} s", time as f64 / 1e9));
    format!(
        "{file}: {}; held after event {}{time}: {} in {}; never freed: {} in {}",
        counted(ledger.events, "event"),
        grouped(at),
        bytes(total.held.bytes),
        counted(total.held.blocks, "block"),
        bytes(total.live.bytes),
        grouped(total.live.blocks),
    )
}

/// Prints the rows, the first of `all`, with what precedes and follows them.
pub fn print(analysis: &Analysis, arguments: &Arguments, rows: &[Row], all: usize) {
    heapwright_show::println!("{}\n", terminal::fitted(&heading(analysis)));
    heapwright_show::print!("{}", table(arguments, rows));
    heapwright_show::println!();
    notes(analysis, rows, all).iter().for_each(|note| {
        heapwright_show::println!("{}", terminal::wrapped(note, terminal::width()));
    });
}

fn table(arguments: &Arguments, rows: &[Row]) -> Table {
    let held = if arguments.at == crate::Moment::Peak { "held at peak" } else { "held then" };
    let name_side = if matches!(arguments.group, Group::Thread | Group::Size) { Side::Right } else { Side::Left };
    let mut table = Table::aligned([
        ("", Side::Right),
        (held, Side::Right),
        ("±", Side::Right),
        ("blocks", Side::Right),
        ("rounding", Side::Right),
        ("pinned", Side::Right),
        ("never freed", Side::Right),
        ("temporary", Side::Right),
        ("calls", Side::Right),
        ("churn", Side::Right),
        (arguments.group.heading(), name_side),
    ]);
    let width = width_of_names();
    for (position, row) in rows.iter().enumerate() {
        let tally = &row.tally;
        let deviation = Measure::Held.deviation(&row.sampled, row.every);
        table.row([
            Cell::from((position + 1).to_string()),
            bytes(tally.held.bytes).into(),
            deviation.map_or_else(Cell::missing, |deviation| bytes(deviation as u64).into()),
            grouped(tally.held.blocks).into(),
            bytes(tally.held.rounding).into(),
            if arguments.by == Measure::Pinned { bytes(tally.pinned).into() } else { Cell::missing() },
            bytes(tally.live.bytes).into(),
            grouped(tally.temporary.blocks).into(),
            grouped(tally.churn.blocks).into(),
            bytes(tally.churn.bytes).into(),
            name(row, arguments.group, width).into(),
        ]);
    }
    table
}

/// Returns the number of characters that are left for the names of rows.
pub fn width_of_names() -> usize {
    terminal::columns().map_or(USUAL_NAME, |columns| columns.saturating_sub(FIGURES).max(LEAST_NAME))
}

fn name(row: &Row, group: Group, width: usize) -> String {
    let name = match group {
        Group::Size => row.name.parse().map_or_else(|_| row.name.clone(), |size| format!("<= {}", bytes(size))),
        _ => row.name.clone(),
    };
    terminal::shortened(&name, width)
}

fn notes(analysis: &Analysis, rows: &[Row], all: usize) -> Vec<String> {
    let mut notes = Vec::new();
    if rows.len() < all {
        let more = counted((all - rows.len()) as u64, "more row");
        notes.push(format!("{more}: `--limit 0` shows all."));
    }
    if rows.iter().any(|row| row.every > 1) {
        let Sampling { every, long } = analysis.ledger.sampling;
        let and_long = if long == u64::MAX { String::new() } else { format!(", and each of {} or more", bytes(long)) };
        notes.push(format!(
            "One request in {every} has a stack{and_long}: rows are estimates, ± is the standard deviation of what is \
             held."
        ));
    }
    let without = analysis.ledger.requests - analysis.ledger.with_site;
    if analysis.lacking.is_none() && analysis.ledger.sampling.every == 1 && without > 0 {
        notes.push(format!("Without a stack: {}.", counted(without, "request")));
    }
    notes.extend(analysis.lacking.iter().map(|lacking| format!("{lacking}.")));
    if analysis.is_snapshot {
        notes.push(SNAPSHOT.to_owned());
    } else if analysis.ledger.total.live.blocks > 0 {
        notes.push("Blocks never freed may still be reachable; the recording does not show it.".to_owned());
    }
    notes
}
