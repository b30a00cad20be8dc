//! Clocks that the parent and its workers share.

use std::ptr;

/// A clock, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Elapsed time since the system was started.
    Wall,
    /// Processor time of this process.
    Processor,
}

impl Clock {
    fn id(self) -> libc::clockid_t {
        match self {
            Clock::Wall => libc::CLOCK_MONOTONIC,
            Clock::Processor => libc::CLOCK_PROCESS_CPUTIME_ID,
        }
    }
}

/// Returns the reading of the clock.
#[inline]
pub fn read(clock: Clock) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a local variable that is valid for writes. Both clocks exist on every Linux; if the call
    // failed, `time` would stay 0.
    unsafe { libc::clock_gettime(clock.id(), &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sleeps until the wall clock reaches `moment`.
pub fn sleep_until(moment: u64) {
    let seconds = (moment / 1_000_000_000) as libc::time_t;
    let time = libc::timespec { tv_sec: seconds, tv_nsec: (moment % 1_000_000_000) as libc::c_long };
    // SAFETY: `time` is a local variable that the call only reads; a null pointer means that the remaining time is not
    // returned.
    let sleep = || unsafe { libc::clock_nanosleep(Clock::Wall.id(), libc::TIMER_ABSTIME, &time, ptr::null_mut()) };
    while sleep() == libc::EINTR {}
}
