//! Buddies compared with free lists. Report 003 does not say under which workloads it compares them; the two workloads
//! here are ours: one favours the lists, the other the buddy.

use anyhow::Result;
use heapwright_placement::{Generator, PolicyKind};

use super::pool::{self, POOL, REPORT};
use super::row::{Figure, Row};
use heapwright_stats as stats;
use heapwright_workloads::published::heaps::{Heap, Placed};
use heapwright_workloads::published::rules;

/// Number of seeds of each workload; figures are means over them.
const SEEDS: u64 = 1_000;

/// Number of times that a random block is freed and another one requested, after the pool was filled for the first
/// time.
const TURNS: usize = 200;

/// A workload: how it draws its sizes in bytes, and the explanation of its results.
struct Workload {
    name: &'static str,
    draw: fn(&mut Generator) -> usize,
    /// The explanation with headers in the pool.
    with_headers: &'static str,
    /// The explanation without headers.
    without: &'static str,
}

const WORKLOADS: [Workload; 2] = [
    Workload {
        name: "small sizes, 2 to 64 bytes, uniform",
        draw: |random| 2 + 2 * random.below(32),
        with_headers: "the lists round up to 2 bytes, the buddy header and all to a power of two: the lists hold more",
        without: "the lists round up to 2 bytes, the buddy to a power of two: the lists hold more",
    },
    Workload {
        name: "powers of two, 16 to 128 bytes",
        draw: |random| 16 << random.below(4),
        with_headers: "the header pushes every size into the next power of two, and the buddy wastes close to half",
        without: "sizes that the buddy was made for: it rounds nothing up",
    },
];

/// Lengths of headers: the report's, and none. For the buddy this makes the largest difference.
const HEADERS: [u32; 2] = [pool::HEADER, 0];

/// The result of one run of a workload.
struct Outcome {
    /// Requested bytes of live blocks when a request failed for the first time, as a share of the pool.
    payload: f64,
    /// The share of the later requests that failed.
    failures: f64,
    /// Holes at the end.
    holes: f64,
    /// Their mean size, without headers.
    mean_hole: f64,
}

/// Runs both workloads under every policy, with and without headers.
pub fn tables() -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for workload in &WORKLOADS {
        for header in HEADERS {
            let table = format!("Buddy or free list: {}, headers of {header} bytes", workload.name);
            let why = if header == 0 { workload.without } else { workload.with_headers };
            for policy in PolicyKind::ALL {
                rows.extend(compare(workload, policy, header)?.map(|(column, unit, mean)| {
                    Row::new(REPORT, &table, policy.name(), column, unit).ours(Figure::Real(mean)).note(&format!(
                        "{why} (a workload of our own, the report gives none; means over {SEEDS} seeds)"
                    ))
                }));
            }
        }
    }
    Ok(rows)
}

/// The columns: name, unit, mean over all seeds.
fn compare(workload: &Workload, policy: PolicyKind, header: u32) -> Result<[(&'static str, &'static str, f64); 4]> {
    let outcomes = (0..SEEDS).map(|seed| run(workload, policy, header, seed)).collect::<Result<Vec<Outcome>>>()?;
    let mean =
        |of: fn(&Outcome) -> f64| stats::mean(&outcomes.iter().map(of).collect::<Vec<f64>>()).unwrap_or(f64::NAN);
    Ok([
        ("payload when full", "percent", mean(|outcome| outcome.payload * 100.0)),
        ("failures after", "percent", mean(|outcome| outcome.failures * 100.0)),
        ("holes at the end", "count", mean(|outcome| outcome.holes)),
        ("mean hole", "bytes", mean(|outcome| outcome.mean_hole)),
    ])
}

fn run(workload: &Workload, policy: PolicyKind, header: u32, seed: u64) -> Result<Outcome> {
    let mut heap = Placed::new(policy, POOL, &rules::pool(header))?;
    heap.seed(seed);
    let mut state = seed;
    let mut random = Generator(&mut state);
    let mut live = Vec::new();
    let mut payload = 0;
    loop {
        let bytes = (workload.draw)(&mut random);
        let Some(block) = heap.allocate(bytes) else { break };
        live.push(block);
        payload += bytes;
    }
    let mut failures = 0;
    for _ in 0..TURNS {
        if !live.is_empty() {
            heap.free(live.swap_remove(random.below(live.len())));
        }
        match heap.allocate((workload.draw)(&mut random)) {
            Some(block) => live.push(block),
            None => failures += 1,
        }
    }
    let holes = pool::holes(&heap, header);
    Ok(Outcome {
        payload: payload as f64 / POOL as f64,
        failures: f64::from(failures) / TURNS as f64,
        holes: holes.count as f64,
        mean_hole: holes.mean().unwrap_or(0.0),
    })
}
