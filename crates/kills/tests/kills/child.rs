//! Processes that a test makes, and how they end.

use std::fs::File;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use nix::libc;
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};

use crate::words;

/// What a child process says by ending, beside signals.
const FAILED: i32 = 101;

/// Runs `work` in a process of its own, which ends with it and does not outlive this one.
///
/// The test has one thread, so that the child may do whatever its parent could.
pub fn spawn(work: impl FnOnce() -> Result<(), String>) -> Pid {
    // SAFETY: this process has a single thread, so nothing is left half-done in the child.
    match unsafe { fork() }.expect("fork") {
        ForkResult::Parent { child } => child,
        ForkResult::Child => {
            set_pdeathsig(Signal::SIGKILL).expect("prctl");
            let status = match catch_unwind(AssertUnwindSafe(work)) {
                Ok(Ok(())) => 0,
                Ok(Err(complaint)) => {
                    eprintln!("{complaint}");
                    FAILED
                }
                Err(_) => FAILED,
            };
            // SAFETY: ends the process at once: what its parent registered to run at exit is its parent's.
            unsafe { libc::_exit(status) }
        }
    }
}

/// As [`spawn`], in a namespace of process numbers of its own, where it is process 1.
///
/// # Errors
/// Where that is not permitted.
pub fn spawn_elsewhere(work: impl FnOnce() -> Result<(), String>) -> Result<Pid, String> {
    let home = File::open("/proc/self/ns/pid").map_err(words("/proc/self/ns/pid"))?;
    unshare(CloneFlags::CLONE_NEWPID).map_err(words("unshare"))?;
    let pid = spawn(work);
    // Children are born here again from now on.
    setns(home, CloneFlags::CLONE_NEWPID).map_err(words("setns"))?;
    Ok(pid)
}

/// Kills a process and waits until it is gone for good, so that it is not taken for alive.
pub fn end(pid: Pid) {
    // It may have ended by itself: then there is only its status to collect.
    let _ = kill(pid, Signal::SIGKILL);
    loop {
        match waitpid(pid, None) {
            Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

/// Waits for a process to end.
///
/// # Errors
/// How it ended, when not well.
pub fn finish(pid: Pid) -> Result<(), String> {
    match waitpid(pid, None) {
        Ok(WaitStatus::Exited(_, 0)) => Ok(()),
        other => Err(format!("ended with {other:?}")),
    }
}

/// A connected pair of sockets whose reads give up after `limit`.
pub fn wires(limit: Duration) -> (UnixStream, UnixStream) {
    let (mine, theirs) = UnixStream::pair().expect("socketpair");
    mine.set_read_timeout(Some(limit)).expect("a limit for reads");
    (mine, theirs)
}
