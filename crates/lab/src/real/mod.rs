//! Real replay: a trace's calls made of a real allocator, in a process of their own.
//!
//! From the bottom up: `op` (an operation in 16 bytes), `slots` and `script` (a trace as operations), `payload`,
//! `violation`, `calls`, `histogram`, `watch` and `player` (performing them), `resident` (how much memory a process
//! holds), `board` (what both processes see), `worker` (the child's side), `launch` (the parent's).

mod board;
mod calls;
pub mod command;
mod crew;
mod futex;
mod histogram;
mod lane;
mod launch;
mod op;
mod payload;
mod player;
mod resident;
mod script;
mod slots;
mod team;
mod violation;
mod watch;
pub mod worker;

use serde::Serialize;

use board::Report;
use histogram::Histogram;

pub use board::Sample;
pub use launch::run;
pub use script::Script;

/// What is written to blocks, and looked at again when they are resized and freed.
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

/// Who makes the calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Threads {
    /// One thread makes all of them, in the order of the trace.
    #[default]
    TotalOrder,
    /// As many threads as were recorded make each their own.
    Faithful,
}

/// Whether every call is timed by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Latencies {
    /// No: the run's time is that of the allocator.
    #[default]
    Off,
    /// Yes: the clock is read around every call, which the run's time has in it.
    On,
}

/// How a script is performed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    pub payload: Payload,
    pub threads: Threads,
    pub latencies: Latencies,
}

/// What came of performing a script. Sizes in bytes; all of the heap alone, without what the worker itself needs.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// Elapsed time of the calls and the payload.
    pub seconds: f64,
    /// Processor time of the same.
    pub cpu_seconds: f64,
    /// The most resident memory in any sample; one of them is taken where the trace has asked for most.
    pub peak_rss: u64,
    /// The mean over the events.
    pub average_rss: u64,
    /// The most resident memory at any moment as the kernel noted it: it sees what lies between samples, but with the
    /// pages of files, and on some kernels a few pages per processor late.
    pub high_water: Option<u64>,
    /// Page faults, and those of them that had to wait for a disk.
    pub faults: u64,
    pub major_faults: u64,
    /// Of all calls together, when they were timed.
    pub latency: Option<Latency>,
    /// Of calls that allocate, that resize, and that free.
    pub allocations: Option<Latency>,
    pub resizes: Option<Latency>,
    pub frees: Option<Latency>,
    /// At most 320, in ascending order of events.
    pub samples: Vec<Sample>,
    /// The most memory that the allocator had from the system by its own marks: of glibc's malloc, when calls are timed.
    pub system_peak: Option<u64>,
    /// Requests that were refused; what the trace does with their blocks later was passed over.
    pub refused: u64,
}

/// How long calls took, in nanoseconds, the clock's own cost taken off.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// Half of the calls took at most this.
    pub p50: f64,
    /// 99 of 100.
    pub p99: f64,
    /// 9,999 of 10,000.
    pub p9999: f64,
    /// All of them.
    pub max: f64,
}

impl Run {
    fn of(report: &Report, script: &Script, settings: &Settings) -> Run {
        let sampled = report.samples.len().min(report.sampled as usize);
        let samples = report.samples[..sampled].to_vec();
        let watched = settings.latencies == Latencies::On;
        let latency = |histogram: &Histogram| if watched { Latency::of(histogram, report) } else { None };
        let mut all = Histogram::empty();
        report.histograms.iter().for_each(|histogram| all.add(histogram));
        let [allocations, resizes, frees] = &report.histograms;
        Run {
            seconds: report.nanoseconds as f64 / 1e9,
            cpu_seconds: report.processor_nanoseconds as f64 / 1e9,
            peak_rss: samples.iter().map(|sample| sample.rss).max().unwrap_or(0),
            average_rss: average(&samples, script.events()),
            high_water: Some(report.high_water).filter(|&bytes| bytes > 0),
            faults: report.minor_faults + report.major_faults,
            major_faults: report.major_faults,
            latency: latency(&all),
            allocations: latency(allocations),
            resizes: latency(resizes),
            frees: latency(frees),
            samples,
            system_peak: Some(report.system_peak).filter(|&bytes| bytes > 0),
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

/// The mean over all events, each sample standing for those since the one before.
fn average(samples: &[Sample], events: u64) -> u64 {
    let mut before = 0;
    let weighed = samples.iter().map(|sample| {
        let since = sample.event - before;
        before = sample.event;
        u128::from(sample.rss) * u128::from(since)
    });
    (weighed.sum::<u128>() / u128::from(events.max(1))) as u64
}
