//! The clock of single operations: the processor's time-stamp counter where there is one.

use std::time::{Duration, Instant};

/// Reads the clock. What came before in the program has happened, what comes after has not.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn ticks() -> u64 {
    use std::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: every x86-64 processor has these instructions.
    unsafe {
        _mm_lfence();
        let now = _rdtsc();
        _mm_lfence();
        now
    }
}

/// Reads the clock, in nanoseconds from the first reading.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub fn ticks() -> u64 {
    use std::sync::OnceLock;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// What a tick is worth, and what reading the clock costs.
#[derive(Clone, Copy, Debug)]
pub struct Calibration {
    /// Nanoseconds in a tick.
    pub tick: f64,
    /// Ticks between two readings with nothing between them: the median of many.
    pub cost: u64,
}

impl Calibration {
    /// Measures both, in some 20 ms.
    pub fn measure() -> Calibration {
        const WINDOW: Duration = Duration::from_millis(20);
        let (start, first) = (Instant::now(), ticks());
        let mut gaps = [0; 10_001];
        for gap in &mut gaps {
            let before = ticks();
            *gap = ticks() - before;
        }
        while start.elapsed() < WINDOW {
            std::hint::spin_loop();
        }
        let tick = start.elapsed().as_nanos() as f64 / (ticks() - first).max(1) as f64;
        let middle = gaps.len() / 2;
        Calibration { tick, cost: *gaps.select_nth_unstable(middle).1 }
    }

    /// The nanoseconds of an operation between two readings `gap` ticks apart.
    pub fn nanoseconds(&self, gap: u64) -> f64 {
        gap.saturating_sub(self.cost) as f64 * self.tick
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_millisecond_is_measured_as_one() {
        let calibration = Calibration::measure();
        let (start, first) = (Instant::now(), ticks());
        while start.elapsed() < Duration::from_millis(5) {}
        let measured = calibration.nanoseconds(ticks() - first);
        let real = start.elapsed().as_nanos() as f64;
        assert!(measured > real * 0.5 && measured < real * 1.5, "{measured} ns instead of {real}");
    }
}
