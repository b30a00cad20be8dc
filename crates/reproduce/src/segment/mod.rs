//! Report 002: buddies in a shared-memory segment. Fragmentation (`fill`, and `theory` for its expected value), and the
//! time of a pair of calls (`times`).

mod fill;
mod theory;
pub mod times;

use anyhow::Result;

use self::fill::{Blocks, Fill, Frees, SHORTEST};
use super::row::{Figure, Row};
use heapwright_host::parallel;
use heapwright_show::progress::Progress;
use heapwright_stats as stats;

/// The report's number.
const REPORT: &str = "002";

/// The columns of both tables, and their units.
const COLUMNS: [(&str, &str); 4] =
    [("user bytes", "bytes"), ("real bytes", "bytes"), ("internal", "percent"), ("external", "percent")];

/// The legend of the first experiment's tables.
pub const LEGEND: &str = "\
Experiment 1: requests of random sizes fill a segment of 256 KiB until one fails. user: requested bytes; real: the
blocks' lengths; internal: 1 - user/real; external, as the report defines it: 1 - user/segment. The report seeded its
generator with the time, so every figure is a distribution here: our mean over all seeds, the interval that contains
99 % of the seeds, the percentile of the published run, and the exact expectation. `no header`: the same requests for
blocks without headers, as in Heapwright's own segments; the report's headers take 16 bytes each.";

/// A table of the report.
struct Published {
    name: &'static str,
    frees: Frees,
    /// By the longest request: user bytes, real bytes, internal and external fragmentation in per cent.
    rows: [(usize, [f64; 4]); 5],
}

const TABLE_1: Published = Published {
    name: "Table 1: nothing freed",
    frees: Frees::Nothing,
    rows: [
        (256, [176_081.0, 262_144.0, 32.83, 32.83]),
        (512, [183_085.0, 261_888.0, 30.09, 30.16]),
        (1024, [189_032.0, 261_632.0, 27.75, 27.89]),
        (2048, [192_482.0, 261_376.0, 26.36, 26.57]),
        (4096, [194_727.0, 260_608.0, 25.28, 25.72]),
    ],
};

const TABLE_2: Published = Published {
    name: "Table 2: 99 % freed, each block at once or never",
    frees: Frees::TheBlockItself,
    rows: [
        (256, [174_990.0, 261_888.0, 33.18, 33.25]),
        (512, [182_165.0, 261_376.0, 30.31, 30.51]),
        (1024, [189_921.0, 260_864.0, 27.20, 27.55]),
        (2048, [190_657.0, 258_816.0, 26.33, 27.27]),
        (4096, [192_663.0, 256_768.0, 24.97, 26.50]),
    ],
};

const TABLE_2_OTHERWISE: Published = Published {
    name: "Table 2, read otherwise: 99 % freed, any of the live blocks",
    frees: Frees::AnyBlock,
    rows: TABLE_2.rows,
};

/// A mean may differ from the expectation by at most this many standard errors.
const STANDARD_ERRORS: f64 = 4.0;

/// Returns both tables of the first experiment, with `seeds` seeds per run.
pub fn fragmentation(seeds: usize) -> Result<Vec<Row>> {
    let mut runs = Vec::new();
    for table in [&TABLE_1, &TABLE_2] {
        for (longest, _) in table.rows {
            for blocks in [Blocks::PUBLISHED, Blocks::WITHOUT_HEADER] {
                runs.push(Fill { blocks, longest, frees: table.frees });
            }
        }
    }
    for (longest, _) in TABLE_2_OTHERWISE.rows {
        runs.push(Fill { blocks: Blocks::PUBLISHED, longest, frees: Frees::AnyBlock });
    }
    let samples = sample_all(&runs, seeds)?;
    let sample = |fill: Fill| runs.iter().position(|&run| run == fill).map(|at| &samples[at]);
    let mut rows = Vec::new();
    for table in [&TABLE_1, &TABLE_2, &TABLE_2_OTHERWISE] {
        for &(longest, figures) in &table.rows {
            for blocks in [Blocks::PUBLISHED, Blocks::WITHOUT_HEADER] {
                let fill = Fill { blocks, longest, frees: table.frees };
                rows.extend(sample(fill).into_iter().flat_map(|sample| table.compare(fill, figures, sample)));
            }
        }
    }
    Ok(rows)
}

/// The figures of every seed, by column, in ascending order.
type Sample = [Vec<f64>; COLUMNS.len()];

/// Performs every run with each of `seeds` seeds, on all processors.
fn sample_all(runs: &[Fill], seeds: usize) -> Result<Vec<Sample>> {
    let jobs = runs.len() * seeds;
    let progress = Progress::new("002: fragmentation", jobs);
    // All runs with one seed before the next seed, so that the remaining time can be estimated.
    let work = |job: usize| runs[job % runs.len()].run((job / runs.len()) as u64);
    let mut samples = vec![Sample::default(); runs.len()];
    parallel::in_order(parallel::cores(), 0..jobs, work, |job, full| {
        samples[job % runs.len()].iter_mut().zip(full.figures()).for_each(|(column, figure)| column.push(figure));
        progress.step();
        Ok(())
    })?;
    Ok(samples.into_iter().map(|sample| sample.map(|column| stats::sorted(&column))).collect())
}

impl Published {
    /// Returns a row of the table: the published figures among ours, or only ours where the blocks are not the
    /// report's.
    fn compare(&self, fill: Fill, published: [f64; 4], sample: &Sample) -> Vec<Row> {
        let of_report = fill.blocks == Blocks::PUBLISHED;
        let range = format!("{SHORTEST}-{}", fill.longest);
        let name = if of_report { range } else { format!("{range}, no header") };
        let theory = theory::expected(fill);
        let mut rows = Vec::new();
        for (at, ((column, unit), ours)) in COLUMNS.into_iter().zip(sample).enumerate() {
            let mean = stats::mean(ours).unwrap_or(f64::NAN);
            let quantile = |share| stats::quantile(ours, share).unwrap_or(f64::NAN);
            let mut row = Row::new(REPORT, self.name, &name, column, unit).ours(figure(unit, mean)).note(self.note());
            let (low, high) = (quantile(0.005), quantile(0.995));
            if of_report {
                row = row.published(figure(unit, published[at])).must_lie_in(low, high);
                row.percentile = stats::rank(ours, published[at]).map(|share| share * 100.0);
            }
            row.spread = Some([low, high]);
            rows.push(match theory {
                Some(theory) => {
                    let error = stats::standard_error(ours).unwrap_or(0.0);
                    row.must_follow(theory[at], STANDARD_ERRORS * error)
                }
                None => Row { expected: None, ..row },
            });
        }
        rows
    }

    fn note(&self) -> &'static str {
        match self.frees {
            Frees::Nothing => "",
            Frees::TheBlockItself => {
                "the report's code frees a new block immediately in 100 of 101 cases, and counts the others: with this \
                 reading every published figure lies in the interval that contains 99 % of ours"
            }
            Frees::AnyBlock => {
                "the report's words would also allow to free any of the live blocks instead of the new one; scattered \
                 holes then end a run earlier, and the published real bytes lie outside: it is not what was done"
            }
        }
    }
}

/// Returns a figure: whole bytes, also for a mean, and a real number in all other units.
fn figure(unit: &str, value: f64) -> Figure {
    if unit == "bytes" { Figure::Count(value.round() as u64) } else { Figure::Real(value) }
}
