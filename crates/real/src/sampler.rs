//! Samples of the resident memory during a run.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::board::{MOST_SAMPLES, Report, Sample, Task};
use super::resident::{self, Resident};

/// Samples come from the quick source when sampling has taken this much longer than the run itself. None is omitted:
/// all runs of a script have samples at the same events.
const PATIENCE: Duration = Duration::from_millis(200);

/// Samples the resident memory of the heap.
pub struct Sampler {
    exact: Meter,
    /// For samples for which there is no time.
    quick: Meter,
    high_baseline: Option<u64>,
    task: Task,
    spent: Duration,
}

/// A source of the resident memory, and the bytes before the run.
struct Meter {
    resident: Resident,
    baseline: u64,
}

impl Meter {
    fn start(resident: Resident) -> Result<Meter> {
        let baseline = resident.bytes()?;
        Ok(Meter { resident, baseline })
    }

    fn bytes(&self) -> Result<u64> {
        Ok(self.resident.bytes()?.saturating_sub(self.baseline))
    }
}

impl Sampler {
    /// Before the run: what is resident now is not the heap's.
    pub fn start(task: &Task) -> Result<Sampler> {
        let (exact, quick) = (Resident::open()?, Resident::open_quick()?);
        resident::forget_high_water();
        let high_baseline = resident::high_water();
        let (exact, quick) = (Meter::start(exact)?, Meter::start(quick)?);
        Ok(Sampler { exact, quick, high_baseline, task: *task, spent: Duration::ZERO })
    }

    /// Returns the number of operations until the next sample.
    pub fn distance(&self, at: u64) -> usize {
        let peak = self.task.peak.checked_sub(at).filter(|&distance| distance > 0);
        let regular = self.task.stride - at % self.task.stride;
        peak.map_or(regular, |peak| peak.min(regular)) as usize
    }

    /// Takes a sample when one is due. Returns `false` when the heap has exceeded its allowance.
    pub fn sample_if_due(&mut self, at: u64, ran: Duration, report: &mut Report) -> Result<bool> {
        let matters = at == self.task.peak || at == self.task.events;
        if !(matters || at.is_multiple_of(self.task.stride)) {
            return Ok(true);
        }
        let meter = if matters || self.spent <= ran + PATIENCE { &self.exact } else { &self.quick };
        let start = Instant::now();
        let rss = meter.bytes()?;
        self.spent += start.elapsed();
        if report.sampled < MOST_SAMPLES as u64 {
            report.samples[report.sampled as usize] = Sample { event: at, rss };
            report.sampled += 1;
        }
        Ok(rss <= self.task.allowance)
    }

    /// Returns the kernel's high-water mark of the heap.
    pub fn high_water(&self) -> u64 {
        resident::high_water().zip(self.high_baseline).map_or(0, |(now, before)| now.saturating_sub(before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::Shared;
    use heapwright_host::lazy::Lazy;

    #[test]
    fn a_sample_for_which_there_is_no_time_is_taken_all_the_same() {
        let (mut shared, _file) = Shared::create().unwrap();
        let board = shared.get_mut();
        board.task = Task { events: 10, stride: 1, allowance: u64::MAX, ..board.task };
        let mut sampler = Sampler::start(&board.task).unwrap();
        // Much more than what other tests of this process take and give back meanwhile.
        let held = Lazy::<u8>::committed(256 << 20).unwrap();
        for (at, spent) in [(1, Duration::ZERO), (2, Duration::from_secs(3600))] {
            sampler.spent = spent;
            assert!(sampler.sample_if_due(at, Duration::ZERO, &mut board.report).unwrap());
        }
        assert_eq!((board.report.sampled, held.len()), (2, 256 << 20));
        for (sample, event) in board.report.samples.iter().zip([1, 2]) {
            assert_eq!(sample.event, event);
            assert!((192 << 20..320 << 20).contains(&sample.rss), "{sample:?}");
        }
    }
}
