//! The clocks of parent and workers, which all processes read alike.

use std::ptr;

/// A clock, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The time that passes, since the system was started.
    Wall,
    /// The time that this process was on a processor.
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

/// What the clock shows.
#[inline]
pub fn read(clock: Clock) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is ours to write. Both clocks exist on every Linux; were one to fail, the time would read 0.
    unsafe { libc::clock_gettime(clock.id(), &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sleeps until the wall clock shows `moment`.
pub fn sleep_until(moment: u64) {
    let seconds = (moment / 1_000_000_000) as libc::time_t;
    let time = libc::timespec { tv_sec: seconds, tv_nsec: (moment % 1_000_000_000) as libc::c_long };
    // SAFETY: `time` is read only, and nothing is to be told of the time left.
    let sleep = || unsafe { libc::clock_nanosleep(Clock::Wall.id(), libc::TIMER_ABSTIME, &time, ptr::null_mut()) };
    while sleep() == libc::EINTR {}
}
