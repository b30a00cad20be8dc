//! Report 002: buddies in a shared-memory segment. How much of it is lost (`fill`, and `theory` for what that comes to on
//! average), and how long a pair of calls takes (`times`).

mod fill;
mod theory;
pub mod times;

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Result, anyhow};

use self::fill::{Blocks, Fill, Frees, SHORTEST};
use super::row::{Figure, Row};
use crate::progress::Progress;
use crate::stats;

/// The report's number.
const REPORT: &str = "002";

/// The columns of both tables, and what they are in.
const COLUMNS: [(&str, &str); 4] =
    [("user bytes", "bytes"), ("real bytes", "bytes"), ("internal", "percent"), ("external", "percent")];

/// What the tables of the first experiment mean, for those who read them.
pub const LEGEND: &str = "\
Experiment 1: requests of random sizes fill a segment of 256 KiB until one fails. user: bytes asked for; real: the blocks' lengths;
internal: 1 - user/real; external, as the report has it: 1 - user/segment. The report seeded its generator with the
time, so every figure is a distribution here: our mean over all seeds, where 99 % of the seeds lie, the percentile of
the published run among them, and the exact expectation. `no header`: the same requests when a block has nothing in
front of it, as in Heapwright's own segments; the report's blocks lose 16 bytes each.";

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

/// A mean that is further from the expectation than so many of its standard errors is not by chance.
const STANDARD_ERRORS: f64 = 4.0;

/// Both tables of the first experiment, each run made with `seeds` seeds.
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

/// Makes every run with so many seeds, on all processors.
fn sample_all(runs: &[Fill], seeds: usize) -> Result<Vec<Sample>> {
    let jobs = runs.len() * seeds;
    let progress = Progress::new("002: fragmentation", jobs);
    let next = AtomicUsize::new(0);
    // All runs with one seed before the next seed, so that the time left can be told.
    let work = || {
        let mut done: Vec<(usize, [f64; COLUMNS.len()])> = Vec::new();
        loop {
            let job = next.fetch_add(1, Ordering::Relaxed);
            if job >= jobs {
                return Ok(done);
            }
            let run = job % runs.len();
            done.push((run, runs[run].run((job / runs.len()) as u64)?.figures()));
            progress.step();
        }
    };
    let mut samples = vec![Sample::default(); runs.len()];
    for (run, figures) in on_all_processors(work)? {
        samples[run].iter_mut().zip(figures).for_each(|(column, figure)| column.push(figure));
    }
    Ok(samples.into_iter().map(|sample| sample.map(|column| stats::sorted(&column))).collect())
}

/// What `work` gives on as many threads as there are processors.
fn on_all_processors<T: Send>(work: impl Fn() -> Result<Vec<T>> + Sync) -> Result<Vec<T>> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let parts: Result<Vec<Vec<T>>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(&work)).collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a thread failed"))?).collect()
    });
    Ok(parts?.into_iter().flatten().collect())
}

impl Published {
    /// A row of the table: the published figures among ours, or ours alone where the blocks are not the report's.
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
                "the report's code frees the block that it has just got in 100 of 101 cases, and counts the others: with \
                 this reading every published figure lies where 99 % of ours lie"
            }
            Frees::AnyBlock => {
                "the report's words would also allow to free any of the live blocks instead of the new one; scattered \
                 holes then end a run earlier, and the published real bytes lie outside: it is not what was done"
            }
        }
    }
}

/// Bytes are counted, also their mean; anything else is not.
fn figure(unit: &str, value: f64) -> Figure {
    if unit == "bytes" { Figure::Count(value.round() as u64) } else { Figure::Real(value) }
}
