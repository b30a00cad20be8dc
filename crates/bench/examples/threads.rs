//! Measures how the malloc of this process serves several threads that replace small blocks: time per pair of `free`
//! and `malloc`, all threads together, and its percentiles.
//!
//! Only windows of 1 ms count in which two threads ran (one, if there is one), each in every quarter: on a machine with
//! other work most threads run alone for long, and contend for nothing. Of these windows the throughput is the median.
//!
//! ```sh
//! cargo build --release -p heapwright-bench --example threads
//! LD_PRELOAD=libheapwright.so HEAPWRIGHT_POLICY=first target/release/examples/threads 1 2 4 8
//! ```

use std::alloc::{Layout, alloc, dealloc};
use std::env;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;

const LIVE: usize = 250;
const LENGTH: Duration = Duration::from_millis(200);
const ROUNDS: usize = 9;
/// Number of pairs between two looks at the clock, where single pairs are not timed.
const BATCH: u64 = 16;
const WINDOW: u64 = 1_000_000;

/// A number of pairs that ended at a time, in nanoseconds, and how long they took.
struct Step {
    end: u64,
    pairs: u64,
    duration: u64,
}

fn layout(rng: &mut Rng) -> Layout {
    Layout::from_size_align(rng.usize(16..=256), 1).expect("the size is small")
}

/// Replaces blocks until `is_over`; times every `batch` pairs.
fn replace(seed: u64, batch: u64, start: Instant, begin: &Barrier, is_over: &AtomicBool) -> Vec<Step> {
    let mut rng = Rng::with_seed(seed);
    let mut steps = Vec::with_capacity(4_000_000 / batch as usize);
    let allocate = |rng: &mut Rng| {
        let layout = layout(rng);
        // SAFETY: no size is 0.
        let block = unsafe { alloc(layout) };
        assert!(!block.is_null());
        (block, layout)
    };
    let mut blocks: Vec<_> = (0..LIVE).map(|_| allocate(&mut rng)).collect();
    begin.wait();
    while !is_over.load(Ordering::Relaxed) && steps.len() < steps.capacity() {
        let before = Instant::now();
        for _ in 0..batch {
            let slot = rng.usize(..LIVE);
            let (old, layout) = blocks[slot];
            // SAFETY: the block was allocated with this layout, and its slot gets another one.
            unsafe { dealloc(old, layout) };
            blocks[slot] = allocate(&mut rng);
            // SAFETY: the block has at least 16 bytes.
            unsafe { blocks[slot].0.write_volatile(1) };
        }
        let end = Instant::now();
        let duration = (end - before).as_nanos() as u64;
        steps.push(Step { end: (end - start).as_nanos() as u64, pairs: batch, duration });
    }
    begin.wait();
    for (block, layout) in blocks {
        // SAFETY: the block was allocated with this layout, and is not used any more.
        unsafe { dealloc(block, layout) };
    }
    steps
}

/// Returns the steps of each thread.
fn run(threads: usize, batch: u64) -> Vec<Vec<Step>> {
    let (begin, is_over, start) = (Barrier::new(threads + 1), AtomicBool::new(false), Instant::now());
    thread::scope(|scope| {
        let (begin, is_over) = (&begin, &is_over);
        let seeds = 0..threads as u64;
        let workers: Vec<_> =
            seeds.map(|seed| scope.spawn(move || replace(seed, batch, start, begin, is_over))).collect();
        begin.wait();
        thread::sleep(LENGTH);
        is_over.store(true, Ordering::Relaxed);
        begin.wait();
        workers.into_iter().map(|worker| worker.join().expect("replacing blocks does not panic")).collect()
    })
}

/// Adds the time per pair of each window that counts to `times`, and the duration of each of its steps to `durations`.
fn evaluate(threads: &[Vec<Step>], times: &mut Vec<f64>, durations: &mut Vec<u64>) {
    let from = threads.iter().filter_map(|steps| steps.first()).map(|step| step.end).max().unwrap_or(0);
    let to = threads.iter().filter_map(|steps| steps.last()).map(|step| step.end).min().unwrap_or(0);
    for start in (from..to.saturating_sub(WINDOW)).step_by(WINDOW as usize) {
        let steps = |thread: &'_ Vec<Step>| {
            let [first, last] = [start, start + WINDOW].map(|time| thread.partition_point(|step| step.end < time));
            first..last
        };
        let is_active = |thread: &&Vec<Step>| {
            let quarters = thread[steps(thread)].iter().map(|step| 1 << ((step.end - start) * 4 / WINDOW));
            quarters.fold(0, |all, quarter| all | quarter) == 0b1111
        };
        if threads.iter().filter(is_active).count() < threads.len().min(2) {
            continue;
        }
        let counted = || threads.iter().flat_map(|thread| &thread[steps(thread)]);
        times.push(WINDOW as f64 / counted().map(|step| step.pairs).sum::<u64>() as f64);
        durations.extend(counted().map(|step| step.duration));
    }
}

fn main() {
    let counts: Vec<usize> = env::args().skip(1).filter_map(|count| count.parse().ok()).collect();
    println!("threads   ns/pair   over one   windows   p50 ns   p99 ns   p99.9 ns   p99.99 ns");
    let mut one = None;
    for threads in counts {
        let (mut times, mut durations) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            evaluate(&run(threads, BATCH), &mut times, &mut Vec::new());
            evaluate(&run(threads, 1), &mut Vec::new(), &mut durations);
        }
        if times.is_empty() || durations.is_empty() {
            println!("{threads:7}   no two threads ran at the same time");
            continue;
        }
        times.sort_by(f64::total_cmp);
        durations.sort_unstable();
        let time = times[times.len() / 2];
        let over = *one.get_or_insert(time) / time;
        let quantile = |share: f64| durations[((durations.len() - 1) as f64 * share) as usize];
        let [p50, p99, p999, p9999] = [0.5, 0.99, 0.999, 0.9999].map(quantile);
        let windows = times.len();
        println!("{threads:7}{time:10.1}{over:11.2}{windows:10}{p50:9}{p99:9}{p999:11}{p9999:12}");
    }
}
