//! Prints the tables.

use std::collections::BTreeSet;

use super::analysis::Suite;
use super::contender::{Contender, Role};
use super::figures::{Kept, Measure, Row};
use super::instructions::Instructions;
use heapwright_show::number;
use heapwright_show::table::{HEADING, Table};
use heapwright_stats::{self as stats, noise};

/// Marks the best of a row, and all that tie with it.
const BEST: &str = "*";
/// A missing figure.
const MISSING: &str = "-";
/// Maximal number of listed rows in which ours is behind.
const LISTED: usize = 12;

/// Prints all tables.
pub fn print(suite: Suite<'_>, instructions: &[Instructions]) {
    for measure in Measure::ALL {
        if suite.rows.iter().any(|row| suite.ratio(row, 0, measure).is_some()) {
            print_measure(suite, measure);
        }
    }
    print_kept(suite);
    for measure in Measure::ALL {
        print_behind(suite, measure);
    }
    if !instructions.is_empty() {
        print_instructions(instructions);
    }
    print_legend(suite);
    print_failures(suite);
}

/// Prints the instructions, a row per allocator.
fn print_instructions(instructions: &[Instructions]) {
    heading("Instructions of malloc / of free, when a block is allocated and freed repeatedly");
    let sizes: BTreeSet<usize> = instructions.iter().map(|it| it.bytes).collect();
    let mut table = Table::new([String::new()].into_iter().chain(sizes.iter().map(|bytes| format!("{bytes} B"))));
    for of_one in instructions.chunk_by(|left, right| left.allocator == right.allocator) {
        let cell = |it: &Instructions| match (it.malloc, it.free) {
            (Some(malloc), Some(free)) => format!("{malloc:.1} / {free:.1}"),
            _ => MISSING.to_owned(),
        };
        table.row([of_one[0].allocator.clone()].into_iter().chain(of_one.iter().map(cell)));
    }
    heapwright_show::print!("{table}");
    for counted in instructions {
        if let Some(failure) = &counted.failure {
            heapwright_show::eprintln!(
                "heapwright: instructions, {} bytes under {}: {failure}",
                counted.bytes,
                counted.allocator
            );
        }
    }
}

/// Prints the versions of the peers.
fn print_legend(suite: Suite<'_>) {
    let peers: Vec<(&str, String)> =
        suite.contenders.iter().filter_map(|it| Some((it.name.as_str(), it.version()?))).collect();
    if peers.is_empty() {
        return;
    }
    heading("Peers");
    peers.iter().for_each(|(name, version)| heapwright_show::println!("{name:16} {version}"));
}

fn heading(text: &str) {
    heapwright_show::println!("\n{HEADING}{text}{HEADING:#}");
}

fn print_measure(suite: Suite<'_>, measure: Measure) {
    heading(&format!(
        "{}: absolute for system, divided by it for the others; {BEST} best, or a tie within noise",
        measure.title()
    ));
    let names = suite.contenders.iter().map(|contender| contender.name.as_str());
    let mut table = Table::new([""].into_iter().chain(names));
    // A row whose workload measures something else has no figure.
    let has_figure =
        |row: &&Row| row.cells.iter().any(|cell| !cell.values(measure).is_empty() || cell.failure.is_some());
    for row in suite.rows.iter().filter(has_figure) {
        let cells = (0..suite.contenders.len()).map(|at| cell(suite, row, at, measure));
        table.row([row.name.clone()].into_iter().chain(cells));
    }
    let means: Vec<_> = (0..suite.contenders.len()).map(|at| suite.mean(at, measure)).collect();
    let ratios = means.iter().map(|mean| mean.as_ref().map_or(MISSING.to_owned(), |mean| format!("{:.3}", mean.ratio)));
    let common = suite.common_rows(measure).len();
    table.row([format!("geometric mean ({common} rows)")].into_iter().chain(ratios));
    let interval = |[low, high]: [f64; 2]| format!("{low:.3}-{high:.3}");
    let intervals =
        means.iter().map(|mean| mean.as_ref().and_then(|mean| mean.interval).map_or(String::new(), interval));
    table.row(["95 % interval".to_owned()].into_iter().chain(intervals));
    heapwright_show::print!("{table}");
}

fn cell(suite: Suite<'_>, row: &Row, at: usize, measure: Measure) -> String {
    let Some(ratio) = suite.ratio(row, at, measure) else { return MISSING.to_owned() };
    let role = suite.contenders[at].role;
    let figure = match role {
        Role::Baseline => {
            stats::median(&row.cells[at].values(measure)).map_or(MISSING.to_owned(), |it| measure.show(it))
        }
        _ => format!("{ratio:.2}"),
    };
    let best = suite.best(row, measure, &[Role::Baseline, Role::Ours, Role::Peer]);
    let is_best = best.is_some_and(|best| !noise::is_beyond(ratio / best, suite.noise(row, measure)));
    let mark = if is_best && role != Role::Noise { BEST } else { " " };
    format!("{figure}{mark}")
}

/// Prints the memory that is retained after frees in scattered places.
fn print_kept(suite: Suite<'_>) {
    for row in suite.rows {
        let kept: Vec<(&Contender, &Kept)> = suite
            .contenders
            .iter()
            .zip(&row.cells)
            .filter_map(|(contender, cell)| Some((contender, cell.runs.last()?.kept.as_ref()?)))
            .collect();
        let Some((_, first)) = kept.first() else { continue };
        heading(&format!("{}: memory retained while the program is idle, last round", row.name));
        let times = first.after.iter().map(|(milliseconds, _)| format!("{milliseconds} ms"));
        let headings = ["", "before"].map(str::to_owned).into_iter().chain(times);
        let mut table = Table::new(headings.chain(["pages in use", "kept/pages"].map(str::to_owned)));
        for (contender, kept) in kept {
            let after = kept.after.iter().map(|(_, bytes)| number::bytes(*bytes));
            let cells = [contender.name.clone(), number::bytes(kept.before)].into_iter().chain(after);
            let over = kept.over_live_pages().map_or(MISSING.to_owned(), |over| format!("{over:.2}"));
            let live_pages = kept.live_pages.map_or(MISSING.to_owned(), number::bytes);
            table.row(cells.chain([live_pages, over]));
        }
        heapwright_show::print!("{table}");
    }
}

/// Prints the rows in which ours is behind, worst first.
fn print_behind(suite: Suite<'_>, measure: Measure) {
    for (role, whom) in [(Role::Baseline, "system"), (Role::Peer, "the best peer")] {
        let Some(ours) = suite.places(Role::Ours).next() else { return };
        let behind = |row: &Row| {
            let ratio = suite.ratio(row, ours, measure)? / suite.best(row, measure, &[role])?;
            noise::is_beyond(ratio, suite.noise(row, measure)).then(|| (row.name.clone(), ratio))
        };
        let mut rows: Vec<(String, f64)> = suite.rows.iter().filter_map(behind).collect();
        rows.sort_by(|left, right| right.1.total_cmp(&left.1));
        if rows.is_empty() {
            continue;
        }
        let name = &suite.contenders[ours].name;
        let more = rows.len().saturating_sub(LISTED);
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        let listed: Vec<String> = rows.iter().take(LISTED).map(|(row, ratio)| format!("{row} {ratio:.2}")).collect();
        heading(&format!("{}: {name} is behind {whom} by more than noise in", measure.title()));
        heapwright_show::println!("{}{more}", listed.join(", "));
    }
}

fn print_failures(suite: Suite<'_>) {
    for row in suite.rows {
        for (contender, cell) in suite.contenders.iter().zip(&row.cells) {
            if let Some(failure) = &cell.failure {
                heapwright_show::eprintln!("heapwright: {} under {}: {failure}", row.name, contender.name);
            }
        }
    }
}
