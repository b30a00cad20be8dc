//! The terminal on standard output.

use std::io;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{getppid, getsid};

/// Waits for at most `time` until the terminal has input, is closed, or a signal arrives. Returns whether the terminal
/// is closed. Closing a terminal does not always deliver SIGHUP.
pub fn wait(time: Duration) -> bool {
    let output = io::stdout();
    let mut terminal = [PollFd::new(&output, PollFlags::IN)];
    let time =
        Timespec { tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX), tv_nsec: time.subsec_nanos().into() };
    // A signal interrupts the wait, as intended.
    let _ = poll(&mut terminal, Some(&time));
    terminal[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)
}

/// Returns whether a shell can continue this process once it has stopped: whether its parent is in its session. The
/// system ignores requests to stop, such as Ctrl-Z, of others.
pub fn has_job_control() -> bool {
    let session = |process| getsid(process).ok();
    getppid().is_some_and(|parent| session(Some(parent)) == session(None))
}
