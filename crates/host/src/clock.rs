//! The clock for single operations: the processor's time-stamp counter, where there is one.

use std::time::{Duration, Instant};

/// Reads the clock, ordered with respect to the surrounding code: earlier instructions have completed, later ones have
/// not begun.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn ticks() -> u64 {
    use std::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: every x86-64 processor has these instructions, and they access no memory of the program.
    unsafe {
        _mm_lfence();
        let now = _rdtsc();
        _mm_lfence();
        now
    }
}

/// Returns the nanoseconds since the first reading.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub fn ticks() -> u64 {
    use std::sync::OnceLock;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Returns the processor time of this process so far, in seconds.
pub fn processor_time() -> f64 {
    processor_duration().as_secs_f64()
}

/// Returns the processor time of this process so far.
pub fn processor_duration() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The length of a tick, and the cost of reading the clock.
#[derive(Clone, Copy, Debug)]
pub struct Calibration {
    /// Nanoseconds in a tick.
    pub tick: f64,
    /// Ticks between two readings with nothing between them: the median of many.
    pub cost: u64,
}

impl Calibration {
    /// Measures both, in about 20 ms.
    pub fn measure() -> Calibration {
        const WINDOW: Duration = Duration::from_millis(20);
        let (start, first) = (Instant::now(), ticks());
        // Short words: workers measure this on their first stack, which the system may limit to some pages.
        let mut gaps = [0; 10_001];
        for gap in &mut gaps {
            let before = ticks();
            *gap = u16::try_from(ticks() - before).unwrap_or(u16::MAX);
        }
        while start.elapsed() < WINDOW {
            std::hint::spin_loop();
        }
        let tick = start.elapsed().as_nanos() as f64 / (ticks() - first).max(1) as f64;
        let middle = gaps.len() / 2;
        Calibration { tick, cost: (*gaps.select_nth_unstable(middle).1).into() }
    }

    /// Returns the nanoseconds of an operation between two readings `gap` ticks apart.
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
