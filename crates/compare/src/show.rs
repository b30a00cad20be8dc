//! Prints a comparison as tables.

use anstyle::{AnsiColor, Color, Style};

use super::baseline;
use super::basis::Evidence;
use super::comparison::Comparison;
use super::confirmation::{Confirmation, Figure, ProgramRun};
use super::marks::{Mark, marks};
use super::metric::{Metric, Origin};
use super::row::{Parts, Row, signed};
use heapwright_show::table::{Cell, HEADING, Table};
use heapwright_show::terminal::wrapped;
use heapwright_stats::Estimate;

/// The best of a column.
const BEST: Style = Style::new().bold().fg_color(Some(Color::Ansi(AnsiColor::Green)));

/// As good as the best, for all that is known.
const TIE: Style = Style::new().fg_color(Some(Color::Ansi(AnsiColor::Green)));

/// What may have changed since a baseline.
const CHANGES: [Metric; 8] = [
    Metric::ProgramTime,
    Metric::ProgramPeak,
    Metric::Time,
    Metric::Peak,
    Metric::Average,
    Metric::P99,
    Metric::Heap,
    Metric::ExternalMean,
];

/// Prints everything, in tables of at most `width` characters.
pub fn print(comparison: &Comparison, baseline: Option<&Comparison>, columns: &[Metric], width: usize) {
    let headline = comparison.headline().map(|line| wrapped(&line, width)).join("\n");
    heapwright_show::println!("{HEADING}{headline}{HEADING:#}");
    tables(comparison, columns, width);
    if columns.contains(&Metric::Peak) && comparison.rows.iter().any(|row| row.parts.is_some()) {
        print_parts(&memory(comparison), width);
    }
    if let Some(confirmation) = &comparison.confirmation {
        print_parts(&confirmed(comparison, confirmation), width);
    }
    if let Some(baseline) = baseline {
        changes(comparison, baseline, width);
    }
    if let Some(recommendation) = &comparison.recommendation {
        heapwright_show::println!("\n{HEADING}{}{HEADING:#}", wrapped(&recommendation.text, width));
    }
    let remarks = comparison.describe_fidelity().into_iter().chain(comparison.notes()).chain([comparison.legend()]);
    remarks.for_each(|text| heapwright_show::println!("\n{}", wrapped(&text, width)));
}

/// One table if it fits, else one for each origin of figures, cut where that does not fit either.
fn tables(comparison: &Comparison, columns: &[Metric], width: usize) {
    let whole = table(comparison, "", columns);
    if whole.width() <= width {
        return print_parts(&whole, width);
    }
    for origin in Origin::ALL {
        let own: Vec<Metric> = columns.iter().copied().filter(|metric| metric.origin() == origin).collect();
        print_parts(&table(comparison, origin.describe(), &own), width);
    }
}

fn print_parts(table: &Table, width: usize) {
    table.parts(width).iter().for_each(|part| heapwright_show::print!("\n{part}"));
}

fn table(comparison: &Comparison, heading: &str, columns: &[Metric]) -> Table {
    let mut table = Table::new([heading].into_iter().chain(columns.iter().map(|metric| metric.heading())));
    let marks: Vec<Vec<Mark>> = columns.iter().map(|&metric| marks(comparison, metric)).collect();
    for (at, row) in comparison.rows.iter().enumerate() {
        let figures = columns.iter().zip(&marks).map(|(&metric, marks)| cell(row, metric, marks[at]));
        table.row([Cell::from(&row.name)].into_iter().chain(figures));
    }
    table
}

/// Returns the parts of each row's peak RSS.
fn memory(comparison: &Comparison) -> Table {
    let mut table = Table::new(["parts of peak RSS"].into_iter().chain(Parts::NAMES));
    for row in &comparison.rows {
        let cells = row.parts.map_or([None; 4], |parts| parts.bytes());
        let cell = |bytes: Option<i64>| bytes.map_or_else(Cell::missing, |bytes| signed(bytes).into());
        table.row([Cell::from(&row.name)].into_iter().chain(cells.map(cell)));
    }
    table
}

/// Returns a figure and how it stands in its column.
fn cell(row: &Row, metric: Metric, mark: Mark) -> Cell {
    let style = match mark {
        Mark::Best => BEST,
        Mark::Tie => TIE,
        Mark::None => Style::new(),
    };
    figure(row, metric).map_or_else(Cell::missing, |figure| Cell::styled(figure, style).marked(mark.sign()))
}

/// Returns a figure; of the ratios to the system's, which decide, with their intervals.
fn figure(row: &Row, metric: Metric) -> Option<String> {
    let estimate = row.figures.get(&metric)?;
    Some(match metric {
        Metric::TimeOverSystem | Metric::ProgramTimeOverSystem | Metric::ProgramPeakOverSystem => {
            with_interval(estimate)
        }
        _ => row.shown(metric, estimate.median),
    })
}

/// Returns a ratio, as in "0.82x [0.79, 0.85]".
fn with_interval(ratio: &Estimate) -> String {
    match ratio.interval {
        Some([low, high]) => format!("{:.2}x [{low:.2}, {high:.2}]", ratio.median),
        None => format!("{:.2}x", ratio.median),
    }
}

/// Returns the runs of the program itself; of each ratio to the system's malloc, what the replays said too.
fn confirmed(comparison: &Comparison, confirmation: &Confirmation) -> Table {
    let basis = comparison.replayed_basis();
    let said = |evidence| if evidence == Evidence::Prediction { "predicted" } else { "replayed" };
    let [time, memory] = [said(basis.time), said(basis.memory)];
    let headings =
        ["the program", "elapsed", "/ system", "processor", "/ system", time, "peak RSS", "/ system", memory];
    let mut table = Table::new(headings);
    for row in &confirmation.rows {
        let shown = |figure: Figure, show: fn(f64) -> String| {
            let figure = confirmation.figure(row, figure);
            figure.map_or_else(Cell::missing, |figure| show(figure.median).into())
        };
        let over_system = |figure: Figure| {
            let ratio = confirmation.over_system(row, figure);
            ratio.map_or_else(Cell::missing, |ratio| with_interval(&ratio).into())
        };
        let replayed = |metric: Metric| {
            let ratio = comparison.row(&row.name).zip(comparison.system());
            let ratio = ratio.and_then(|(own, system)| comparison.ratio(own, system, metric));
            ratio.map_or_else(Cell::missing, |ratio| format!("{:.2}x", ratio.median).into())
        };
        let bytes = |bytes: f64| Metric::Peak.show(bytes);
        let seconds = |seconds: f64| Metric::Time.show(seconds);
        table.row([
            Cell::from(&row.name),
            shown(ProgramRun::ELAPSED, seconds),
            over_system(ProgramRun::ELAPSED),
            shown(ProgramRun::PROCESSOR, seconds),
            over_system(ProgramRun::PROCESSOR),
            replayed(basis.time_metric()),
            shown(ProgramRun::PEAK, bytes),
            over_system(ProgramRun::PEAK),
            replayed(basis.memory_metric()),
        ]);
    }
    table
}

/// What has changed since the baseline, as ratios.
fn changes(comparison: &Comparison, before: &Comparison, width: usize) {
    let mut table = Table::new(["over baseline"].into_iter().chain(CHANGES.map(Metric::name)));
    for row in &comparison.rows {
        let change = |metric| baseline::change(comparison, before, row, metric);
        let cell = |metric| change(metric).map_or_else(Cell::missing, |ratio| with_interval(&ratio).into());
        table.row([Cell::from(&row.name)].into_iter().chain(CHANGES.map(cell)));
    }
    print_parts(&table, width);
    baseline::differences(comparison, before)
        .iter()
        .for_each(|text| heapwright_show::println!("{}", wrapped(text, width)));
}

#[cfg(test)]
mod tests {
    use super::super::confirmation::Confirmed;
    use super::super::recorded::Recorded;
    use super::super::row::Kind;
    use super::super::synthetic::{Synthetic, row};
    use super::*;

    /// Runs of the program at 3.6 s and 90 MB, beside these figures of the recorded one.
    fn runs_beside(recorded: Recorded) -> String {
        let comparison = Synthetic::beside([row("mine", 0.5, 1.25)]).noise(0.0).harness(0.0).recorded(recorded).build();
        let of = |name: &str, kind, seconds| Confirmed {
            name: name.to_owned(),
            kind,
            note: None,
            runs: vec![ProgramRun { seconds, cpu_seconds: seconds, peak_rss: 90_000_000 }; 6],
        };
        let rows = vec![of("system", Kind::System, 4.0), of("mine", Kind::Allocator, 3.6)];
        confirmed(&comparison, &Confirmation { rounds: 6, rows }).to_string()
    }

    #[test]
    fn what_was_predicted_stands_beside_what_was_measured() {
        let known = Recorded {
            processor_seconds: Some(4.0),
            malloc_seconds: Some(1.0),
            peak_anonymous: Some(80_000_000),
            resident_files: Some(0),
            ..Recorded::default()
        };
        let figures = |table: &str| -> Vec<String> {
            let mine = table.lines().find(|line| line.starts_with("mine")).unwrap();
            mine.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
        };
        let table = runs_beside(known);
        assert!(table.contains("predicted") && !table.contains("replayed"), "{table}");
        let cells = figures(&table);
        assert_eq!((&*cells[4], &*cells[5], &*cells[8]), ("0.90x [0.90, 0.90]", "0.88x", "1.20x"), "{table}");
        let table = runs_beside(Recorded { processor_seconds: None, ..known });
        assert!(table.contains("replayed") && table.contains("predicted"), "{table}");
        assert_eq!(figures(&table)[5], "0.50x", "{table}");
    }
}
