//! Report 000: a drop-in malloc with four fits. The engine reproduces its counts (Figure 8) exactly.

use anyhow::Result;
use heapwright_placement::{Counters, Engine, PolicyKind};

use super::as_published::{Defect, Defective};
use super::row::{Figure, Row, Verdict};
use heapwright_workloads::published::heaps::{Heap, Placed};
use heapwright_workloads::published::programs::COUNT;
use heapwright_workloads::published::programs::Draws;
use heapwright_workloads::published::rules;

/// The report's number.
pub const REPORT: &str = "000";

const TABLE: &str = "Figure 8: counts";
const AS_PROGRAMMED: &str = "worst, as programmed";

/// The published columns, in the report's order, each with the eight figures of [`COUNTS`].
const PUBLISHED: [(PolicyKind, [u64; 8]); 4] = [
    (PolicyKind::Next, [100_001, 19_958, 45_256, 54_745, 41_585, 88_369, 179_258_508, 132_109_388]),
    (PolicyKind::First, [100_001, 19_958, 45_256, 54_745, 41_585, 88_369, 179_258_508, 132_109_388]),
    (PolicyKind::Best, [100_001, 19_958, 45_256, 54_745, 41_585, 88_369, 179_258_508, 132_109_388]),
    (PolicyKind::Worst, PUBLISHED_WORST),
];
const PUBLISHED_WORST: [u64; 8] = [100_001, 19_958, 41_847, 58_154, 41_585, 91_778, 179_258_508, 135_600_204];

/// The names and units of the published counts.
const COUNTS: [(&str, &str); 8] = [
    ("mallocs", "count"),
    ("frees", "count"),
    ("reuses", "count"),
    ("grows", "count"),
    ("splits", "count"),
    ("blocks", "count"),
    ("requested", "bytes"),
    ("max heap", "bytes"),
];

/// A heap with counters, from which the program's own rule computes "max heap".
trait Counted: Heap {
    fn counters(&self) -> Counters;
}

impl Counted for Placed {
    fn counters(&self) -> Counters {
        self.engine().counters().unwrap_or_default()
    }
}

impl Counted for Defective {
    fn counters(&self) -> Counters {
        Defective::counters(self)
    }
}

/// Forwards requests, and records the peak of the bytes in blocks at any request, without headers.
struct Watched<H> {
    heap: H,
    max_heap: u64,
}

impl<H: Counted> Heap for Watched<H> {
    fn allocate(&mut self, bytes: usize) -> Option<usize> {
        let block = self.heap.allocate(bytes);
        let counters = self.heap.counters();
        let payload = counters.heap_size - counters.blocks * u64::from(rules::FITS.header);
        self.max_heap = self.max_heap.max(payload);
        block
    }

    fn free(&mut self, block: usize) {
        self.heap.free(block);
    }
}

/// Runs the program on `heap` and returns the eight counts.
fn count<H: Counted>(heap: H, draws: &Draws) -> Result<[u64; 8]> {
    let mut watched = Watched { heap, max_heap: 0 };
    draws.run(&mut watched, &mut vec![0; 2 * COUNT])?;
    let c = watched.heap.counters();
    Ok([c.mallocs, c.frees, c.reuses, c.grows, c.splits, c.blocks, c.rounded, watched.max_heap])
}

/// Returns every cell of Figure 8.
pub fn counts() -> Result<Vec<Row>> {
    let draws = Draws::of_report();
    let mut rows = Vec::new();
    for (policy, published) in PUBLISHED {
        let ours = count(Placed::new(policy, rules::FITS_CAPACITY, &rules::FITS)?, &draws)?;
        let cells = cells(policy.name(), published, ours);
        rows.extend(cells.map(|row| match policy {
            PolicyKind::Worst => explained(row.may_be_defect()),
            _ => row.must_agree(),
        }));
    }
    let ours = count(Defective::growing(Defect::WorstPassesOverExactFits, rules::FITS), &draws)?;
    let note = "a walk of a list of blocks that never takes a hole of exactly the size, as theirs did";
    rows.extend(cells(AS_PROGRAMMED, PUBLISHED_WORST, ours).map(|row| row.must_agree().note(note)));
    rows.push(never_hangs()?);
    Ok(rows)
}

fn cells(column: &'static str, published: [u64; 8], ours: [u64; 8]) -> impl Iterator<Item = Row> {
    COUNTS.into_iter().zip(published).zip(ours).map(move |(((name, unit), published), ours)| {
        Row::new(REPORT, TABLE, name, column, unit).published(Figure::Count(published)).ours(Figure::Count(ours))
    })
}

fn explained(row: Row) -> Row {
    let differs = row.verdict == Some(Verdict::Defect);
    if differs {
        row.note(
            "the published worst fit never takes a hole that fits exactly; as defined it counts what the others do",
        )
    } else {
        row
    }
}

/// The four requests on which the published next fit never terminates.
fn never_hangs() -> Result<Row> {
    let mut heap = Placed::new(PolicyKind::Next, 1 << 20, &rules::FITS)?;
    let first = heap.allocate(100);
    first.into_iter().for_each(|block| heap.free(block));
    let served = [first, heap.allocate(50), heap.allocate(1000)].into_iter().flatten().count();
    let row =
        Row::new(REPORT, "Allocate 100, free it, allocate 50, allocate 1000 bytes", "requests served", "next", "count");
    Ok(row
        .ours(Figure::Count(served as u64))
        .verdict(Verdict::Defect)
        .note("the published next fit searches for ever at the last request; as defined it serves all three"))
}
