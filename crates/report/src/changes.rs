//! The page of `heapwright diff`: what changed between two recordings.

use std::cmp::Reverse;

use anyhow::Result;
use heapwright_sites::diff::{Change, Comparison};
use heapwright_sites::{Analysis, Measure, Tally};
use serde::Serialize;

use crate::page;

/// The values of all measures, in the order of [`Measure::ALL`].
type Values = [u64; Measure::ALL.len()];

/// Rows of the page: these whose change is largest by each measure.
const ROWS: usize = 300;

/// What the page shows.
#[derive(Serialize)]
struct Changes<'a> {
    schema: u32,
    measures: [&'static str; Measure::ALL.len()],
    /// The measure that is shown first.
    by: usize,
    /// What a row is.
    row: &'static str,
    before: Recording<'a>,
    after: Recording<'a>,
    rows: Vec<Row<'a>>,
    /// How many rows changed less and are left out.
    left_out: usize,
    /// The conditions that hold.
    failures: &'a [String],
    /// What the figures do not say, such as that a recording is incomplete.
    notes: Vec<String>,
}

/// A recording as a whole.
#[derive(Serialize)]
struct Recording<'a> {
    file: &'a str,
    events: u64,
    /// One request in this many has a stack.
    every: u64,
    /// The sums of all blocks, exact in sampled traces too.
    totals: Values,
}

/// What changed.
#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    /// "new", "gone", or empty.
    state: &'static str,
    before: Values,
    after: Values,
    /// The standard deviations of the changes; 0 unless a trace is sampled.
    deviations: [f64; Measure::ALL.len()],
}

/// Returns the page.
///
/// # Errors
/// When the data cannot be written as JSON.
pub fn html(comparison: &Comparison) -> Result<String> {
    let data = data(comparison);
    page::CHANGES.html(&format!("{} → {}", data.before.file, data.after.file), &data)
}

fn data(comparison: &Comparison) -> Changes<'_> {
    let chosen = largest(&comparison.changes);
    Changes {
        schema: 1,
        measures: Measure::ALL.map(Measure::name),
        by: Measure::ALL.iter().position(|&measure| measure == comparison.by).unwrap_or(0),
        row: comparison.rows,
        before: Recording::of(&comparison.before),
        after: Recording::of(&comparison.after),
        left_out: comparison.changes.len() - chosen.len(),
        rows: chosen.into_iter().map(Row::of).collect(),
        failures: &comparison.failures,
        notes: comparison.notes(),
    }
}

fn values(tally: &Tally) -> Values {
    Measure::ALL.map(|measure| measure.of(tally))
}

/// Returns the changes that are among the largest by any measure, in their order.
fn largest(changes: &[Change]) -> Vec<&Change> {
    let mut is_chosen = vec![false; changes.len()];
    for measure in Measure::ALL {
        let size = |&at: &usize| measure.of(&changes[at].after).abs_diff(measure.of(&changes[at].before));
        let mut order: Vec<usize> = (0..changes.len()).filter(|at| size(at) > 0).collect();
        order.sort_by_key(|at| Reverse(size(at)));
        order.into_iter().take(ROWS).for_each(|at| is_chosen[at] = true);
    }
    changes.iter().zip(is_chosen).filter_map(|(change, is_chosen)| is_chosen.then_some(change)).collect()
}

impl Recording<'_> {
    fn of(analysis: &Analysis) -> Recording<'_> {
        Recording {
            file: &analysis.file,
            events: analysis.ledger.events,
            every: analysis.ledger.sampling.every,
            totals: values(&analysis.ledger.total),
        }
    }
}

impl Row<'_> {
    fn of(change: &Change) -> Row<'_> {
        Row {
            name: &change.name,
            state: change.state(),
            before: values(&change.before),
            after: values(&change.after),
            deviations: change.deviations(),
        }
    }
}
