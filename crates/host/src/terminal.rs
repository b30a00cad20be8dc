//! The terminal on standard output.

use std::io;
use std::mem;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

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

/// Stops the processes of this one's group, as Ctrl-Z does; returns when a shell has continued them. Returns at once
/// where the system ignores such requests, because there is no shell that could.
pub fn stop_group() {
    // SAFETY: an action is plain data, and zeros are the default one.
    let (default, mut before): (libc::sigaction, libc::sigaction) = unsafe { (mem::zeroed(), mem::zeroed()) };
    // SAFETY: the default action runs no code of the process, and the one before is installed again.
    unsafe {
        if libc::sigaction(libc::SIGTSTP, &default, &mut before) == 0 {
            libc::kill(0, libc::SIGTSTP);
            libc::sigaction(libc::SIGTSTP, &before, std::ptr::null_mut());
        }
    }
}
