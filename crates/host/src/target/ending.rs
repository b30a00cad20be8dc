//! The end of another process, without confusing it with a later process that has its number.

use std::os::fd::OwnedFd;
use std::thread::sleep;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// The end of a process.
pub struct Ending {
    /// `None` where the system has no descriptors of processes, before Linux 5.3.
    process: Option<OwnedFd>,
}

impl Ending {
    /// Returns the end of process `pid`, which exists.
    pub fn of(pid: u32) -> Ending {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        Ending { process: pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) }
    }

    /// Waits for `time` at most; returns whether the process has ended. Without descriptors of processes this is not
    /// known, and it waits.
    pub fn comes_within(&self, time: Duration) -> bool {
        let Some(process) = &self.process else {
            sleep(time);
            return false;
        };
        let limit = Timespec::try_from(time).ok();
        poll(&mut [PollFd::new(process, PollFlags::IN)], limit.as_ref()).is_ok_and(|ready| ready > 0)
    }
}
