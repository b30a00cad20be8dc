//! Report 003: five fits and a buddy allocator in a pool of 1 KiB. The engine reproduces its table exactly.

use anyhow::Result;
use heapwright_placement::{BlockState, Engine, HoleStats, PolicyKind};

use super::as_published::{Defect, Defective};
use super::row::{Figure, Row, Verdict};
use heapwright_workloads::published::heaps::{Heap, Placed};
use heapwright_workloads::published::rules;

/// The report's number.
pub const REPORT: &str = "003";

/// The pool's size in bytes.
pub const POOL: usize = 1024;

/// The report's header, in bytes.
pub const HEADER: u32 = 16;

/// A step of the report's program, which numbers its blocks.
enum Step {
    /// Allocates the block of this number, with this many bytes.
    Take(usize, usize),
    /// Frees the block of this number, if its allocation succeeded.
    Free(usize),
}
use Step::{Free, Take};

#[rustfmt::skip]
const STEPS: [Step; 26] = [
    Take(1, 252), Take(2, 256), Take(3, 128), Take(4, 64), Take(5, 60), Take(6, 48),
    Free(2), Free(4), Free(6),
    Take(2, 28), Take(4, 32), Take(6, 36), Take(7, 14), Free(6),
    Take(6, 16), Take(8, 128), Take(9, 16), Take(10, 32), Take(11, 28), Free(11), Free(8),
    Take(8, 70), Take(11, 14), Take(12, 20), Take(13, 32), Take(14, 8),
];

/// The state of a pool by which the report compares policies.
pub struct Outcome {
    /// The lengths of the holes, without their headers.
    pub holes: HoleStats,
    /// Number of refused requests.
    pub failures: u64,
}

/// The columns of the report's tables.
pub const COLUMNS: [(&str, &str); 6] = [
    ("holes", "count"),
    ("min hole", "bytes"),
    ("max hole", "bytes"),
    ("mean hole", "bytes"),
    ("sd of holes", "bytes"),
    ("failures", "count"),
];

impl Outcome {
    /// The figures of [`COLUMNS`].
    pub fn figures(&self) -> [Figure; 6] {
        let holes = &self.holes;
        [
            Figure::Count(holes.count as u64),
            Figure::Count(holes.min as u64),
            Figure::Count(holes.max as u64),
            Figure::Real(holes.mean().unwrap_or(0.0)),
            Figure::Real(holes.variance().unwrap_or(0.0).sqrt()),
            Figure::Count(self.failures),
        ]
    }
}

/// Runs the report's program and returns the number of requests that `heap` refused.
fn run_steps(heap: &mut impl Heap) -> u64 {
    let mut blocks = [None; 15];
    let mut failures = 0;
    for step in STEPS {
        match step {
            Take(block, bytes) => {
                blocks[block] = heap.allocate(bytes);
                failures += u64::from(blocks[block].is_none());
            }
            Free(block) => blocks[block].take().into_iter().for_each(|block| heap.free(block)),
        }
    }
    failures
}

/// Returns the lengths of the holes of `heap`, without their headers.
pub fn holes(heap: &Placed, header: u32) -> HoleStats {
    let mut stats = HoleStats::default();
    for block in heap.engine().blocks().filter(|block| block.state == BlockState::Free) {
        stats.add(block.size - header as usize);
    }
    stats
}

/// Runs the report's program under `policy`, with headers of `header` bytes; `seed` is for random fit.
pub fn run(policy: PolicyKind, header: u32, seed: u64) -> Result<Outcome> {
    let mut heap = Placed::new(policy, POOL, &rules::pool(header))?;
    heap.seed(seed);
    let failures = run_steps(&mut heap);
    Ok(Outcome { holes: holes(&heap, header), failures })
}

/// Runs the report's program on a heap with this defect; `seed` is for random fit.
pub fn run_defective(defect: Defect, seed: u64) -> Outcome {
    let mut heap = Defective::fixed(defect, rules::pool(HEADER), POOL);
    heap.seed = seed;
    let failures = run_steps(&mut heap);
    Outcome { holes: heap.holes(), failures }
}

/// The published rows.
#[rustfmt::skip]
const PUBLISHED: [(PolicyKind, [Figure; 6]); 4] = [
    (PolicyKind::First, published(3, 2, 10, 5.3333, 3.3993, 0)),
    (PolicyKind::Next, PUBLISHED_NEXT),
    (PolicyKind::Best, published(1, 56, 56, 56.0, 0.0, 0)),
    (PolicyKind::Worst, published(3, 2, 18, 10.0, 6.5320, 0)),
];
const PUBLISHED_NEXT: [Figure; 6] = published(2, 22, 72, 47.0, 25.0, 2);

const fn published(holes: u64, min: u64, max: u64, mean: f64, sd: f64, failures: u64) -> [Figure; 6] {
    [
        Figure::Count(holes),
        Figure::Count(min),
        Figure::Count(max),
        Figure::Real(mean),
        Figure::Real(sd),
        Figure::Count(failures),
    ]
}

/// Returns the report's first table, and the same table for headers that are one pointer longer.
pub fn table() -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (policy, published) in PUBLISHED {
        let ours = run(policy, HEADER, 0)?.figures();
        rows.extend(cells(policy.name(), published, ours).map(|row| match policy {
            PolicyKind::Next => explained(row.may_be_defect()),
            _ => row.must_agree(),
        }));
    }
    let ours = run_defective(Defect::NextStopsAtTheEnd, 0).figures();
    rows.extend(cells("next, as programmed", PUBLISHED_NEXT, ours).map(Row::must_agree));
    rows.extend(with_longer_headers()?);
    Ok(rows)
}

fn cells(row: &'static str, published: [Figure; 6], ours: [Figure; 6]) -> impl Iterator<Item = Row> {
    COLUMNS.into_iter().zip(published).zip(ours).map(move |(((column, unit), published), ours)| {
        Row::new(REPORT, "Free lists: one program, four fits", row, column, unit).published(published).ours(ours)
    })
}

fn explained(row: Row) -> Row {
    if row.verdict != Some(Verdict::Defect) {
        return row;
    }
    row.note("the published next fit never goes on from the bottom of the pool; as defined it serves every request")
}

/// The same program with headers of 24 bytes instead of 16, beside the published figures.
fn with_longer_headers() -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (policy, published) in PUBLISHED {
        let ours = run(policy, 24, 0)?.figures();
        for (((column, unit), published), ours) in COLUMNS.into_iter().zip(published).zip(ours) {
            let row = Row::new(REPORT, "The same with headers of 24 bytes", policy.name(), column, unit);
            let row = row.published(published).ours(ours);
            let same = published == ours;
            rows.push(if same { row.verdict(Verdict::Exact) } else { longer_headers_differ(row) });
        }
    }
    Ok(rows)
}

fn longer_headers_differ(row: Row) -> Row {
    row.verdict(Verdict::Differs)
        .note("published for 16-byte headers: 8 bytes more per block make a pool this small another one")
}
