//! The results: rows for `--json`, and tables.

use serde::Serialize;
use serde_json::{Map, Value};

use super::contender::{Layer, NO_OP};
use super::measure::{Case, Outcome};
use heapwright_allocators::baselines::SYSTEM_AGAIN;
use heapwright_show::number;
use heapwright_show::table::{HEADING, Table};
use heapwright_stats::{Estimate, Spread, median};
use heapwright_workloads::probe::{PartLatency, PartTime};

/// A measurement, as `--json` prints it. Missing figures are null, and `note` contains the reason.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The workload's name.
    pub workload: String,
    /// Its size, under the name of what is counted, and its part where there are several.
    pub parameters: Map<String, Value>,
    /// The policy or allocator.
    pub subject: String,
    /// The layer on which it was measured.
    pub layer: Layer,
    /// Whether every block was written to.
    pub touched: bool,
    /// Nanoseconds of processor time per operation (an allocate or a free), including the harness and any writing: the
    /// median of the rounds.
    pub ns_per_op: Option<f64>,
    /// The first and the third quartile of the rounds.
    pub quartiles: Option<[f64; 2]>,
    /// The 95 % confidence interval of the median, from six rounds up.
    pub interval: Option<[f64; 2]>,
    /// Median latency of single operations, in nanoseconds, without the cost of reading the clock: the median of the
    /// rounds.
    pub p50: Option<f64>,
    /// The 99th percentile of the latency.
    pub p99: Option<f64>,
    /// The 99.99th percentile of the latency.
    pub p9999: Option<f64>,
    /// The maximal latency in all rounds.
    pub max: Option<f64>,
    /// Time divided by that of the system's malloc: the median of the rounds' ratios.
    pub over_system: Option<f64>,
    /// The 95 % confidence interval of that ratio, from six rounds up.
    pub over_system_interval: Option<[f64; 2]>,
    /// Why figures are missing, if any are.
    pub note: Option<String>,
}

fn per_operation(times: &[PartTime], part: &str) -> Option<f64> {
    let time = times.iter().find(|time| time.part == part)?;
    (time.operations > 0).then(|| time.nanoseconds / time.operations as f64)
}

/// Returns the rows of a case: all contenders for its first part, then for the next.
pub fn rows(case: &Case, outcomes: &[Outcome]) -> Vec<Row> {
    let parts = case.workload.kind.parts();
    let contenders = || case.contenders.iter().zip(outcomes);
    let each = parts.iter().flat_map(|part| contenders().map(move |(contender, outcome)| (part, contender, outcome)));
    each.map(|(part, contender, outcome)| {
        let figures = |rounds: &[Vec<PartTime>]| -> Vec<f64> {
            rounds.iter().filter_map(|round| per_operation(round, part)).collect()
        };
        let (ours, base) = (figures(&outcome.rounds), figures(&outcome.base));
        let over = Estimate::of_paired_ratios(&ours, &base);
        let spread = Spread::of(&ours);
        let latencies: Vec<_> = outcome.latencies.iter().flatten().filter(|it| it.part == **part).collect();
        let middle = |quantile: fn(&PartLatency) -> f64| {
            median(&latencies.iter().map(|latency| quantile(latency)).collect::<Vec<f64>>())
        };
        Row {
            workload: case.workload.kind.name().to_owned(),
            parameters: parameters(case, part),
            subject: contender.subject.clone(),
            layer: contender.layer,
            touched: case.touched,
            ns_per_op: spread.map(|spread| spread.median),
            quartiles: spread.map(|spread| [spread.low, spread.high]),
            interval: Estimate::of(&ours).and_then(|time| time.interval),
            p50: middle(|latency| latency.p50),
            p99: middle(|latency| latency.p99),
            p9999: middle(|latency| latency.p9999),
            max: latencies.iter().map(|latency| latency.max).reduce(f64::max),
            over_system: over.map(|over| over.median),
            over_system_interval: over.and_then(|over| over.interval),
            note: outcome.note.clone(),
        }
    })
    .collect()
}

fn parameters(case: &Case, part: &str) -> Map<String, Value> {
    let kind = case.workload.kind;
    let size = kind.size_name().map(|name| (name.to_owned(), Value::from(case.workload.size)));
    let part = (kind.parts().len() > 1).then(|| ("part".to_owned(), Value::from(part)));
    size.into_iter().chain(part).collect()
}

/// Prints the table of a part of a case.
pub fn print_table(rows: &[Row]) {
    let Some(first) = rows.first() else { return };
    let parameters = first.parameters.iter().map(|(name, value)| match value {
        Value::Number(number) => format!("{} {name}", number::grouped(number.as_u64().unwrap_or_default())),
        value => value.as_str().unwrap_or_default().to_owned(),
    });
    let touched = if first.touched { "every block written" } else { "memory not touched" };
    let words: Vec<String> = parameters.chain([touched.to_owned()]).collect();
    heapwright_show::println!("\n{HEADING}{}{HEADING:#}: {}", first.workload, words.join(", "));
    let mut table =
        Table::new(["subject", "layer", "ns/op", "±", "p50", "p99", "p99.99", "max", "over system", ""]).named_by(2);
    let best = best_of(rows);
    for row in rows {
        table.row(cells(row, if best.is_some_and(|best| std::ptr::eq(best, row)) { "best" } else { "" }));
    }
    heapwright_show::print!("{table}");
    print_notes(rows);
}

/// Prints why figures are missing, each reason once.
fn print_notes(rows: &[Row]) {
    let mut told: Vec<&str> = Vec::new();
    for note in rows.iter().filter_map(|row| row.note.as_deref()) {
        if told.contains(&note) {
            continue;
        }
        let silent = rows.iter().filter(|row| row.note.as_deref() == Some(note));
        let names: Vec<String> = silent.map(|row| format!("{} ({})", row.subject, row.layer)).collect();
        heapwright_show::println!("  {}: {note}", names.join(", "));
        told.push(note);
    }
}

/// Returns the fastest row with memory: an engine alone is not a usable allocator.
fn best_of(rows: &[Row]) -> Option<&Row> {
    let fit = rows.iter().filter(|row| row.layer != Layer::Engine && row.subject != SYSTEM_AGAIN);
    let fastest = fit.filter_map(|row| Some((row, row.ns_per_op?))).min_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(fastest.0)
}

fn cells(row: &Row, mark: &str) -> [String; 10] {
    let figure = |figure: Option<f64>| figure.map_or("-".to_owned(), number::short);
    let interval = row.interval.zip(row.ns_per_op).filter(|(_, median)| *median > 0.0);
    let width = interval.map(|([low, high], median)| format!("{:.0} %", (high - low) / 2.0 / median * 100.0));
    let ratio = row.over_system.filter(|_| row.subject != NO_OP);
    [
        row.subject.clone(),
        row.layer.to_string(),
        figure(row.ns_per_op),
        width.unwrap_or_else(|| "-".to_owned()),
        figure(row.p50),
        figure(row.p99),
        figure(row.p9999),
        figure(row.max),
        figure(ratio),
        mark.to_owned(),
    ]
}
