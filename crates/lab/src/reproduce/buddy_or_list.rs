//! Report 003 compares its buddy allocator with its free lists under workloads that it does not give. These two are
//! ours: one that suits the lists and one that suits the buddy.

use anyhow::Result;
use heapwright_placement::{Generator, PolicyKind};

use super::pool::{self, POOL, REPORT};
use super::row::{Figure, Row};
use crate::heaps::{Heap, Placed};
use crate::rules;
use crate::stats;

/// Each workload is run with so many seeds; figures are means over them.
const SEEDS: u64 = 1_000;

/// After the pool was filled for the first time: so many times, a random block is freed and another asked for.
const TURNS: usize = 200;

/// How a workload draws its sizes, in bytes, and what makes its result.
struct Workload {
    name: &'static str,
    draw: fn(&mut Generator) -> usize,
    /// With headers in the pool.
    with_headers: &'static str,
    /// Without.
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

/// Headers of the report's length inside the pool, and none: for the buddy this is what decides.
const HEADERS: [u32; 2] = [pool::HEADER, 0];

/// What one run of a workload comes to.
struct Outcome {
    /// Bytes asked for that were live when a request failed for the first time, as a share of the pool.
    payload: f64,
    /// The share of the later requests that failed.
    failures: f64,
    /// Holes at the end.
    holes: f64,
    /// Their mean size, without headers.
    mean_hole: f64,
}

/// Both workloads under every policy, with and without headers.
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
