//! Report 002's second experiment: one block of one size allocated and freed repeatedly, in a real segment and by
//! malloc. Measured in rounds, each measurement in a process of its own.

use std::array;

use super::REPORT;
use crate::child::Task;
use crate::row::{Figure, Row, Verdict};
use crate::timing::shuffled;
use heapwright_allocators::allocator::Allocator;
use heapwright_show::progress::Progress;
use heapwright_stats::{Estimate, paired_ratios};
use heapwright_workloads::published::programs::Company;
use heapwright_workloads::published::programs::Layer;
use heapwright_workloads::published::programs::Program;
use heapwright_workloads::published::programs::Touch;

/// The legend of the tables.
pub const LEGEND: &str = "\
Experiment 2 runs in a SharedHeap under buddies, 256 KiB in /dev/shm, with its lock and its crash safety.
worst case: the segment is empty, so each pair splits and joins all of it; best case: one more block of the size is
live. As in the report, nothing is written to the blocks. Processor time, medians of rounds in random order, each run
in a process of its own; ± half the 95 % interval, from six rounds up. `malloc again` is malloc a second time
(A/A): the difference is noise.";

const TIMES: &str = "Experiment 2: 100,000 x (allocate + free)";
/// The table of ratios, which [`segment_ratios`](crate::segment_ratios) returns.
pub const RATIOS: &str = "Experiment 2: the same, over malloc of the same round";

/// The requested sizes, in bytes.
const SIZES: [usize; 7] = [200, 400, 800, 1600, 3200, 6400, 12_800];

/// An allocator in the tables.
struct Contender {
    name: &'static str,
    layer: Layer,
    company: Company,
    /// The published milliseconds, by size.
    published: Option<[f64; SIZES.len()]>,
}

/// All contenders; the first one is the baseline.
const CONTENDERS: [Contender; 4] = [
    Contender {
        name: "malloc",
        layer: Layer::Malloc,
        company: Company::Nothing,
        published: Some([10.0, 10.0, 10.0, 26.0, 26.0, 26.0, 26.0]),
    },
    Contender { name: "malloc again", layer: Layer::Malloc, company: Company::Nothing, published: None },
    Contender {
        name: "worst case",
        layer: Layer::Segment,
        company: Company::Nothing,
        published: Some([491.0, 473.0, 420.0, 400.0, 392.0, 343.0, 277.0]),
    },
    Contender {
        name: "best case",
        layer: Layer::Segment,
        company: Company::OneBlock,
        published: Some([98.0, 127.0, 130.0, 135.0, 139.0, 148.0, 157.0]),
    },
];

/// The seconds of each round, or why the measurement failed.
type Rounds = Result<Vec<f64>, String>;

/// The rounds by contender and size.
type Times = [[Rounds; SIZES.len()]; CONTENDERS.len()];

/// Measures `rounds` rounds and returns both tables.
pub fn rows(rounds: usize) -> Vec<Row> {
    let times = measure(rounds);
    let base = &CONTENDERS[0];
    let mut rows = Vec::new();
    for (at, bytes) in SIZES.into_iter().enumerate() {
        for (contender, times) in CONTENDERS.iter().zip(&times) {
            let published = contender.published.map(|theirs| theirs[at] / 1e3);
            rows.push(compare(cell(TIMES, bytes, contender, "seconds"), published, &times[at]));
        }
    }
    for (at, bytes) in SIZES.into_iter().enumerate() {
        for (contender, theirs) in CONTENDERS.iter().zip(&times).skip(1) {
            let published = contender.published.zip(base.published).map(|(theirs, base)| theirs[at] / base[at]);
            let ratios = over(&theirs[at], &times[0][at]);
            rows.push(compare(cell(RATIOS, bytes, contender, "ratio"), published, &ratios));
        }
    }
    rows
}

fn cell(table: &str, bytes: usize, contender: &Contender, unit: &'static str) -> Row {
    Row::new(REPORT, table, &format!("{bytes} bytes"), contender.name, unit)
}

fn measure(rounds: usize) -> Times {
    let mut times: Times = array::from_fn(|_| array::from_fn(|_| Ok(Vec::new())));
    let jobs = CONTENDERS.len() * SIZES.len();
    let progress = Progress::new("002: times", rounds * jobs);
    for round in 0..rounds {
        for job in shuffled(jobs, round as u64) {
            let (contender, size) = (job % CONTENDERS.len(), job / CONTENDERS.len());
            time_once(&CONTENDERS[contender], SIZES[size], &mut times[contender][size]);
            progress.step();
        }
    }
    times
}

/// Adds the seconds of one more run, unless an earlier one failed.
fn time_once(contender: &Contender, bytes: usize, times: &mut Rounds) {
    let Ok(so_far) = times else { return };
    let program = Program::SegmentPairs { bytes, company: contender.company };
    let task = Task { program, layer: contender.layer, touch: Touch::Untouched };
    match task.perform(&Allocator::System) {
        Ok(parts) => so_far.extend(parts),
        Err(error) => *times = Err(format!("not measured: {error:#}")),
    }
}

/// Divides round by round.
fn over(ours: &Rounds, base: &Rounds) -> Rounds {
    let (ours, base) = (ours.clone()?, base.clone()?);
    paired_ratios(&ours, &base).ok_or_else(|| "not measured: malloc took no time".to_owned())
}

/// Compares the median with the published figure: within when they differ by less than a factor of two.
fn compare(row: Row, published: Option<f64>, values: &Rounds) -> Row {
    let row = Row { published: published.map(Figure::Real), ..row };
    let estimate = match values {
        Err(failure) => return row.note(failure),
        Ok(values) => Estimate::of(values),
    };
    let Some(ours) = estimate else { return row };
    let row = Row { spread: ours.interval, ..row.ours(Figure::Real(ours.median)) };
    let Some(published) = published else { return row };
    match ours.median / published {
        ratio if (0.5..=2.0).contains(&ratio) => row.verdict(Verdict::Within),
        ratio if row.unit == "seconds" || ratio > 1.0 => row.verdict(Verdict::Differs).note(ANOTHER_MACHINE),
        _ => row.verdict(Verdict::Differs).note(CHEAPER),
    }
}

const ANOTHER_MACHINE: &str = "another machine, and another allocator: what can be compared is the time over malloc";
const CHEAPER: &str = "a pair of ours takes the time of fewer malloc+free pairs than half of what theirs took";

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(published: f64, ours: f64) -> Row {
        compare(Row::new(REPORT, RATIOS, "r", "c", "ratio"), Some(published), &Ok(vec![ours]))
    }

    #[test]
    fn ratios_are_within_up_to_a_factor_of_two() {
        assert_eq!(ratio(10.0, 5.0).verdict, Some(Verdict::Within));
        assert_eq!(ratio(10.0, 4.9).note, CHEAPER);
        assert_eq!(ratio(10.0, 20.1).note, ANOTHER_MACHINE);
    }

    #[test]
    fn what_was_not_measured_has_no_figure() {
        let failed = || Err("not measured: no room".to_owned());
        assert_eq!(over(&failed(), &Ok(vec![1.0])), failed());
        let row = compare(Row::new(REPORT, RATIOS, "r", "c", "seconds"), Some(1.0), &failed());
        assert!(row.ours.is_none() && row.verdict.is_none() && row.note.contains("no room"), "{row:?}");
    }
}
