//! Times of calls: ticks of a counter of the processor's as nanoseconds.

use std::fs;
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use heapwright_os::{now_nanoseconds, ticks};

/// How long the counter is watched to learn its rate: both clocks are read to some 50 ns, so that the rate is right to 3 in a million.
const WATCHED: Duration = Duration::from_millis(20);

/// How fast the counter runs.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    nanoseconds_per_tick: f64,
}

impl Rate {
    /// Watches the counter beside the system's clock.
    ///
    /// # Errors
    /// The processor does not say that its counter runs at one rate.
    pub fn measure() -> Result<Rate> {
        ensure!(is_steady(), "no times can be recorded: the processor does not say that its counter is steady");
        let before = (ticks(), now_nanoseconds());
        thread::sleep(WATCHED);
        let after = (ticks(), now_nanoseconds());
        Ok(Rate { nanoseconds_per_tick: (after.1 - before.1) as f64 / (after.0 - before.0).max(1) as f64 })
    }

    /// The nanoseconds from one reading of the counter to another; 0 when that came before.
    pub fn nanoseconds(self, from: u64, to: u64) -> u64 {
        (to.saturating_sub(from) as f64 * self.nanoseconds_per_tick) as u64
    }
}

/// Whether the counter runs at one rate whatever the processor does, on all of them alike.
fn is_steady() -> bool {
    let says = |flag: &str| fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| text.contains(flag));
    !cfg!(target_arch = "x86_64") || (says("constant_tsc") && says("nonstop_tsc"))
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
