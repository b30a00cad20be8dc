//! Replay of a trace by real allocators, each in a worker process.
//!
//! From the bottom up: `op` (an operation in 16 bytes), `slots`, `thinned` (samples of the recorded process),
//! `timeline` (when events happened), `windows` (how far threads run ahead) and `script` (a trace as operations),
//! `payload`, `violation`, `calls`, `histogram`, `observer` and `player` (performing operations), `lane`, `workers` and
//! `performer` (by one thread or several), `resident` (resident memory of the process), `board` (shared memory of both
//! processes), `sampler` (samples of resident memory), `course` (where batches end, and the clock), `worker` (the
//! child's side), `launch` (the parent's side).

mod board;
mod calls;
mod course;
mod histogram;
mod lane;
mod launch;
mod observer;
mod op;
mod payload;
mod performer;
mod player;
mod resident;
mod sampler;
mod script;
mod slots;
mod span;
mod thinned;
mod timeline;
mod violation;
mod windows;
pub mod worker;
mod workers;

use serde::Serialize;

use board::Report;
use histogram::Histogram;

pub use board::Sample;
pub use launch::{ensure_room, reason, run};
pub use script::Script;

/// What is written to blocks, and checked when they are resized and freed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Payload {
    /// Nothing: pages are touched by the allocator only.
    None,
    /// A word at the head, at the tail, and in every 4 KiB.
    #[default]
    Touch,
    /// Every byte. Finds most, and is not for timing.
    Full,
}

/// How many threads make the calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Threads {
    /// The number of the recorded program: one worker thread per recorded thread makes that thread's calls.
    #[default]
    AsRecorded,
    /// One thread makes all of them, in the order of the trace.
    One,
}

/// Whether every call is timed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Latencies {
    /// No: the run's time is that of the allocator.
    #[default]
    Off,
    /// Yes: the clock is read around every call, which the time of the run includes.
    On,
}

/// How a script is performed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// What is written to blocks.
    pub payload: Payload,
    /// How many threads make the calls.
    pub threads: Threads,
    /// Whether every call is timed.
    pub latencies: Latencies,
}

/// The results of a run. Sizes are in bytes and of the heap alone, without the memory of the worker itself.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// Elapsed time of the calls and of writing and checking payloads.
    pub seconds: f64,
    /// Processor time of the calls and of writing and checking payloads.
    pub cpu_seconds: f64,
    /// Peak of the resident memory over all samples. One sample is taken at the trace's peak of requested bytes.
    pub peak_rss: u64,
    /// Mean of the resident memory over all events.
    pub average_rss: u64,
    /// All that was resident before the first call, that of files and of the worker itself included. Differences
    /// between allocators are what these take to start.
    pub start_rss: u64,
    /// The kernel's high-water mark of the resident memory. It includes peaks between samples, but also pages of files,
    /// and on some kernels it lags behind by a few pages per processor.
    pub high_water: Option<u64>,
    /// Page faults.
    pub faults: u64,
    /// The processor time of a page fault for memory that is written to for the first time, measured before the run.
    pub fault_seconds: f64,
    /// Page faults that read from a disk.
    pub major_faults: u64,
    /// Latency of all calls, when they were timed.
    pub latency: Option<Latency>,
    /// Latency of calls that allocate.
    pub allocations: Option<Latency>,
    /// Latency of calls that resize.
    pub resizes: Option<Latency>,
    /// Latency of calls that free.
    pub frees: Option<Latency>,
    /// Samples in ascending order of events: at most 256 at equal distances, one at the peak, one at the end. The
    /// events depend on the script and on [`Threads`] alone: runs of one script have samples at the same events,
    /// whatever the allocator.
    pub samples: Vec<Sample>,
    /// Peak of the memory obtained from the system, read from the allocator's metadata: for glibc's malloc, when calls
    /// are timed.
    pub system_peak: Option<u64>,
    /// Usable bytes of the live blocks at the trace's peak of requested bytes, by `malloc_usable_size`: when calls are
    /// timed and every byte is verified.
    pub usable_at_peak: Option<u64>,
    /// Number of refused requests. Later events of their blocks were skipped.
    pub refused: u64,
}

/// Percentiles of the latency of calls, in nanoseconds, without the cost of reading the clock.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.99th percentile.
    pub p9999: f64,
    /// The maximum.
    pub max: f64,
}

impl Run {
    fn of(report: &Report, script: &Script, settings: &Settings) -> Run {
        let sampled = report.samples.len().min(report.sampled as usize);
        let samples = report.samples[..sampled].to_vec();
        let is_timed = settings.latencies == Latencies::On;
        let latency = |histogram: &Histogram| if is_timed { Latency::of(histogram, report) } else { None };
        let mut all = Histogram::empty();
        report.histograms.iter().for_each(|histogram| all.add(histogram));
        let [allocations, resizes, frees] = &report.histograms;
        Run {
            seconds: report.nanoseconds as f64 / 1e9,
            cpu_seconds: report.processor_nanoseconds as f64 / 1e9,
            peak_rss: samples.iter().map(|sample| sample.rss).max().unwrap_or(0),
            average_rss: average(&samples, script.events()),
            start_rss: report.start_rss,
            high_water: Some(report.high_water).filter(|&bytes| bytes > 0),
            faults: report.minor_faults + report.major_faults,
            fault_seconds: report.fault_nanoseconds / 1e9,
            major_faults: report.major_faults,
            latency: latency(&all),
            allocations: latency(allocations),
            resizes: latency(resizes),
            frees: latency(frees),
            samples,
            system_peak: Some(report.system_peak).filter(|&bytes| bytes > 0),
            usable_at_peak: Some(report.usable).filter(|&bytes| bytes > 0),
            refused: report.refused,
        }
    }
}

impl Latency {
    fn of(histogram: &Histogram, report: &Report) -> Option<Latency> {
        let nanoseconds = |ticks: u64| ticks.saturating_sub(report.clock_cost) as f64 * report.tick;
        let at = |share| histogram.quantile(share).map(nanoseconds);
        Some(Latency { p50: at(0.5)?, p99: at(0.99)?, p9999: at(0.9999)?, max: nanoseconds(histogram.longest()) })
    }
}

/// Returns the mean over all events. Each sample counts for the events since the previous one.
fn average(samples: &[Sample], events: u64) -> u64 {
    let mut before = 0;
    let weighed = samples.iter().map(|sample| {
        let since = sample.event - before;
        before = sample.event;
        u128::from(sample.rss) * u128::from(since)
    });
    (weighed.sum::<u128>() / u128::from(events.max(1))) as u64
}
