//! Times of calls: converts ticks of the processor's counter to nanoseconds.

use std::fs;
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use heapwright_os::{now_nanoseconds, ticks};

/// Duration of the calibration. Both clocks are read to within about 50 ns, which gives the rate to 3 parts in a
/// million.
const WATCHED: Duration = Duration::from_millis(20);

/// Rate of the counter.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    nanoseconds_per_tick: f64,
}

impl Rate {
    /// Calibrates the counter against the system's clock.
    ///
    /// # Errors
    /// The processor does not declare that its counter runs at a constant rate.
    pub fn measure() -> Result<Rate> {
        ensure!(is_steady(), "times cannot be recorded: the processor does not declare a constant-rate counter");
        let before = (ticks(), now_nanoseconds());
        thread::sleep(WATCHED);
        Ok(Rate::since(before.0, before.1))
    }

    /// Returns the rate since a moment at which both clocks were read.
    pub fn since(ticks_then: u64, nanoseconds_then: u64) -> Rate {
        let ticks = ticks().saturating_sub(ticks_then);
        let nanoseconds = now_nanoseconds().saturating_sub(nanoseconds_then);
        Rate { nanoseconds_per_tick: nanoseconds as f64 / ticks.max(1) as f64 }
    }

    /// Returns the nanoseconds from one reading of the counter to another; 0 if `to` precedes `from`.
    pub fn nanoseconds(self, from: u64, to: u64) -> u64 {
        (to.saturating_sub(from) as f64 * self.nanoseconds_per_tick) as u64
    }
}

/// Returns whether the counter runs at a constant rate, in step on all processors, in every power state.
fn is_steady() -> bool {
    let has_flag = |flag: &str| fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| text.contains(flag));
    !cfg!(target_arch = "x86_64") || (has_flag("constant_tsc") && has_flag("nonstop_tsc"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_as_long_by_the_counter_as_by_the_clock() {
        let Ok(rate) = Rate::measure() else { return };
        let (from, before) = (ticks(), now_nanoseconds());
        thread::sleep(WATCHED);
        let (counted, passed) = (rate.nanoseconds(from, ticks()), now_nanoseconds() - before);
        assert!(counted.abs_diff(passed) < 1_000_000 + passed / 100, "{counted} and {passed}");
        assert_eq!(rate.nanoseconds(from, from - 1), 0);
    }
}
