//! Times of a workload.

use std::time::Instant;

/// The name of the line with the processor time of the workload, in nanoseconds.
pub const CPU: &str = "cpu_ns";
/// The name of the line with the elapsed time, in nanoseconds.
pub const ELAPSED: &str = "elapsed_ns";

/// Measures processor time and elapsed time.
pub struct Stopwatch {
    start: Instant,
    cpu: u64,
}

impl Stopwatch {
    /// Starts a measurement.
    pub fn start() -> Stopwatch {
        Stopwatch { start: Instant::now(), cpu: processor_nanoseconds() }
    }

    /// Returns the processor time of all threads and the elapsed time since the start, in nanoseconds.
    pub fn read(&self) -> (u64, u64) {
        (processor_nanoseconds() - self.cpu, self.start.elapsed().as_nanos() as u64)
    }
}

/// Returns the processor time of all threads of this process so far, in nanoseconds.
fn processor_nanoseconds() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec and exclusively borrowed. The call cannot fail: every Linux has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
