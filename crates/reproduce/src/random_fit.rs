//! Report 003's random fit. Its seed is unknown, so only the distribution can be reproduced.

use anyhow::Result;
use heapwright_placement::PolicyKind;

use super::as_published::Defect;
use super::pool::{self, COLUMNS, HEADER, Outcome, REPORT};
use super::row::{Figure, Row, Verdict};
use heapwright_stats as stats;

/// Number of seeds: a thousand times the runs of the report.
const SEEDS: u64 = 10_000;

/// The report's ten runs: holes, smallest, largest, mean and standard deviation of the holes, failures.
const PUBLISHED: [[f64; 6]; 10] = [
    [1.0, 96.0, 96.0, 96.0, 0.0, 2.0],
    [2.0, 2.0, 42.0, 22.0, 20.0, 0.0],
    [2.0, 8.0, 112.0, 60.0, 52.0, 2.0],
    [3.0, 4.0, 140.0, 54.6667, 60.6923, 4.0],
    [3.0, 2.0, 44.0, 16.6667, 19.3448, 1.0],
    [2.0, 4.0, 126.0, 65.0, 61.0, 4.0],
    [3.0, 4.0, 132.0, 74.6667, 53.0995, 5.0],
    [2.0, 4.0, 92.0, 48.0, 44.0, 2.0],
    [2.0, 10.0, 18.0, 14.0, 4.0, 1.0],
    [1.0, 46.0, 46.0, 46.0, 0.0, 1.0],
];

/// The report's row of averages. (Its average number of holes was printed without decimals.)
const PUBLISHED_AVERAGES: [f64; 6] = [2.0, 18.0, 84.8, 49.7, 31.4137, 2.2];

const AVERAGES: &str = "Random fit: average of ten runs";
const AS_DEFINED: &str = "random";
const AS_PROGRAMMED: &str = "random, as programmed";

/// The figures of every seed, by column.
type Sample = [Vec<f64>; COLUMNS.len()];

/// Returns the averages of ten runs, and the percentile of each of the report's ten runs among ours.
pub fn tables() -> Result<Vec<Row>> {
    let defined = sample(|seed| pool::run(PolicyKind::Random, HEADER, seed))?;
    let programmed = sample(|seed| Ok(pool::run_defective(Defect::RandomStopsAtTheEnd, seed)))?;
    let mut rows = Vec::new();
    rows.extend(averages(AS_DEFINED, &defined).map(explained));
    rows.extend(averages(AS_PROGRAMMED, &programmed).map(inferred));
    rows.extend(percentiles("Random fit: percentiles of the ten runs among 10,000, as defined", &defined));
    rows.extend(percentiles("Random fit: percentiles of the ten runs among 10,000, as programmed", &programmed));
    Ok(rows)
}

fn sample(run: impl Fn(u64) -> Result<Outcome>) -> Result<Sample> {
    let mut sample = Sample::default();
    for seed in 0..SEEDS {
        let figures = run(seed)?.figures();
        sample.iter_mut().zip(figures).for_each(|(column, figure)| column.push(figure.as_f64()));
    }
    Ok(sample)
}

/// Returns the published averages compared with our means, and the interval that contains 99 % of our averages of ten
/// runs.
fn averages(row: &'static str, sample: &Sample) -> impl Iterator<Item = Row> {
    COLUMNS.into_iter().zip(PUBLISHED_AVERAGES).zip(sample).map(move |(((column, unit), published), ours)| {
        let averages: Vec<f64> = ours.chunks_exact(PUBLISHED.len()).filter_map(stats::mean).collect();
        let averages = stats::sorted(&averages);
        let at = |share| stats::quantile(&averages, share).unwrap_or(f64::NAN);
        Row::new(REPORT, AVERAGES, row, column, unit)
            .published(Figure::Real(published))
            .ours(Figure::Real(stats::mean(ours).unwrap_or(f64::NAN)))
            .must_lie_in(at(0.005), at(0.995))
    })
}

fn inferred(row: Row) -> Row {
    row.note(
        "inferred from the figures: the search starts at a random hole and ends at the last one, as that of the \
         report's next fit; the published average lies where 99 % of our averages of ten runs lie",
    )
}

/// The rows as defined differ from what was published where the defect shows.
fn explained(row: Row) -> Row {
    if row.verdict == Some(Verdict::Within) {
        return row;
    }
    let row = row.note(
        "random fit as defined hardly ever fails here; the published failures need a search that gives up at the \
         pool's end",
    );
    Row { expected: None, ..row.verdict(Verdict::Defect) }
}

/// Returns the percentile of each published run among ours.
fn percentiles(table: &str, sample: &Sample) -> Vec<Row> {
    let sorted: Vec<Vec<f64>> = sample.iter().map(|column| stats::sorted(column)).collect();
    let mut rows = Vec::new();
    for (run, published) in PUBLISHED.iter().enumerate() {
        let run = format!("run {}", run + 1);
        for (((column, unit), &published), ours) in COLUMNS.into_iter().zip(published).zip(&sorted) {
            let row = Row::new(REPORT, table, &run, column, unit).published(Figure::Real(published));
            let (Some(share), Some(median)) = (stats::rank(ours, published), stats::quantile(ours, 0.5)) else {
                continue;
            };
            let central = (0.005..=0.995).contains(&share);
            let verdict = if central { Verdict::Within } else { Verdict::Differs };
            rows.push(Row { percentile: Some(share * 100.0), ..row.ours(Figure::Real(median)).verdict(verdict) });
        }
    }
    rows
}
