//! Time: the processor's counter, and the system's clock.

use crate::code::arch::{counter, wait_for_instructions};
use crate::time::clock::nanoseconds_of;

/// Returns a counter of time that runs at a constant rate, which is measured against [`now_nanoseconds`]. Costs one
/// instruction. The same on all processors of a machine, if the processors guarantee that, as nearly all do.
#[inline(always)]
#[must_use]
pub fn ticks() -> u64 {
    counter().unwrap_or_else(now_nanoseconds)
}

/// Returns [`ticks`] when all instructions before have been executed, so that none of them is under way afterwards.
#[inline(always)]
#[must_use]
pub fn ticks_after_work() -> u64 {
    wait_for_instructions();
    ticks()
}

/// Returns the time of the system's monotonic clock in nanoseconds.
#[must_use]
pub fn now_nanoseconds() -> u64 {
    nanoseconds_of(libc::CLOCK_MONOTONIC)
}

/// Returns the time of the system's monotonic clock at its last tick, 1 to 10 ms ago, in nanoseconds. The processor's
/// counter is not read, which sandboxes may forbid (`PR_SET_TSC`, strict seccomp).
#[must_use]
pub fn coarse_nanoseconds() -> u64 {
    nanoseconds_of(libc::CLOCK_MONOTONIC_COARSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_and_nanoseconds_run_forwards() {
        let before = (ticks(), now_nanoseconds());
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(ticks_after_work() > before.0 && now_nanoseconds() >= before.1 + 2_000_000);
    }
}
