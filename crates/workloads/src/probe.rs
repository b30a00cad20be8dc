//! Probes that time a workload: as a whole, for throughput, or operation by operation, for latencies. Both run the same
//! code of the workload, hence the same operations.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use heapwright_host::clock::processor_time;
use heapwright_host::clock::{Calibration, ticks};
use heapwright_host::lazy::Lazy;

/// Observes a workload.
pub trait Probe {
    /// Performs one operation of the allocator.
    fn operation<R>(&mut self, operation: impl FnOnce() -> R) -> R;

    /// Performs a part of the workload, which consists of `operations` operations.
    fn part<R>(&mut self, name: &'static str, operations: u64, body: impl FnOnce(&mut Self) -> R) -> R;
}

/// Measures nothing: for preparing a heap.
pub struct Blind;

impl Probe for Blind {
    #[inline(always)]
    fn operation<R>(&mut self, operation: impl FnOnce() -> R) -> R {
        operation()
    }

    fn part<R>(&mut self, _: &'static str, _: u64, body: impl FnOnce(&mut Self) -> R) -> R {
        body(self)
    }
}

/// The total time of a part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PartTime {
    /// The part's name within its workload.
    pub part: String,
    /// Number of operations.
    pub operations: u64,
    /// Nanoseconds for all of them, including the workload's own code.
    pub nanoseconds: f64,
}

/// Times each part as a whole, and adds up the times of a repeated part. The clock is the processor time of the
/// process, which excludes the time of other processes.
pub struct Whole {
    clock_cost: f64,
    parts: Vec<PartTime>,
}

impl Whole {
    /// Returns a probe that subtracts the cost of reading its clock.
    pub fn calibrated() -> Whole {
        let mut gaps = [0.0; 201];
        for gap in &mut gaps {
            let start = processor_time();
            *gap = (processor_time() - start) * 1e9;
        }
        gaps.sort_by(f64::total_cmp);
        Whole { clock_cost: gaps[gaps.len() / 2], parts: Vec::new() }
    }

    /// Returns the measurements.
    pub fn into_parts(self) -> Vec<PartTime> {
        self.parts
    }
}

impl Probe for Whole {
    #[inline(always)]
    fn operation<R>(&mut self, operation: impl FnOnce() -> R) -> R {
        operation()
    }

    fn part<R>(&mut self, name: &'static str, operations: u64, body: impl FnOnce(&mut Self) -> R) -> R {
        let start = processor_time();
        let result = body(self);
        let nanoseconds = ((processor_time() - start) * 1e9 - self.clock_cost).max(0.0);
        match self.parts.iter_mut().find(|part| part.part == name) {
            Some(part) => {
                part.operations += operations;
                part.nanoseconds += nanoseconds;
            }
            None => self.parts.push(PartTime { part: name.to_owned(), operations, nanoseconds }),
        }
        result
    }
}

/// Percentiles of the latency of a part's operations, in nanoseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PartLatency {
    /// The part's name within its workload.
    pub part: String,
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.99th percentile.
    pub p9999: f64,
    /// The maximum.
    pub max: f64,
}

/// Times every operation.
pub struct Each {
    calibration: Calibration,
    current: usize,
    parts: Vec<Samples>,
}

/// The ticks of each operation of a part.
struct Samples {
    name: &'static str,
    ticks: Lazy<u32>,
    taken: usize,
}

/// The maximal number of operations that are timed in a part; later ones are not timed.
const MOST_SAMPLES: usize = 1 << 26;

impl Each {
    /// Allocates room for the parts of a workload, by name.
    pub fn of(names: &[&'static str]) -> Result<Each> {
        let parts = names.iter().map(|name| Ok(Samples { name, ticks: Lazy::zeroed(MOST_SAMPLES)?, taken: 0 }));
        Ok(Each { calibration: Calibration::measure(), current: 0, parts: parts.collect::<Result<_>>()? })
    }

    /// Returns the measurements.
    pub fn into_parts(self) -> Vec<PartLatency> {
        let calibration = self.calibration;
        self.parts.into_iter().filter_map(|samples| samples.summarise(calibration)).collect()
    }
}

impl Samples {
    fn summarise(mut self, calibration: Calibration) -> Option<PartLatency> {
        let taken = &mut self.ticks[..self.taken];
        let last = taken.len().checked_sub(1)?;
        let mut at = |share: f64| {
            let rank = (last as f64 * share).round() as usize;
            calibration.nanoseconds(u64::from(*taken.select_nth_unstable(rank).1))
        };
        Some(PartLatency { part: self.name.to_owned(), p50: at(0.5), p99: at(0.99), p9999: at(0.9999), max: at(1.0) })
    }
}

impl Probe for Each {
    #[inline(always)]
    fn operation<R>(&mut self, operation: impl FnOnce() -> R) -> R {
        let before = ticks();
        let result = operation();
        let gap = ticks() - before;
        let samples = &mut self.parts[self.current];
        if let Some(slot) = samples.ticks.get_mut(samples.taken) {
            *slot = u32::try_from(gap).unwrap_or(u32::MAX);
            samples.taken += 1;
        }
        result
    }

    fn part<R>(&mut self, name: &'static str, _: u64, body: impl FnOnce(&mut Self) -> R) -> R {
        if let Some(at) = self.parts.iter().position(|samples| samples.name == name) {
            self.current = at;
        }
        body(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_happens_twice_is_summed_up() {
        let mut whole = Whole::calibrated();
        whole.part("a", 2, |_| ());
        whole.part("b", 1, |_| ());
        whole.part("a", 3, |_| ());
        let operations: Vec<_> = whole.into_parts().into_iter().map(|part| (part.part, part.operations)).collect();
        assert_eq!(operations, [("a".to_owned(), 5), ("b".to_owned(), 1)]);
    }

    #[test]
    fn latencies_stay_in_their_part() {
        let mut each = Each::of(&["quick", "slow", "unused"]).unwrap();
        each.part("quick", 1000, |each| (0..1000).for_each(|_| each.operation(|| ())));
        each.part("slow", 1, |each| each.operation(|| std::thread::sleep(std::time::Duration::from_millis(2))));
        let parts = each.into_parts();
        assert_eq!(parts.len(), 2);
        assert!(parts[0].p50 < 1e6 && parts[1].p50 > 1e6 && parts[1].max == parts[1].p50, "{parts:?}");
    }
}
