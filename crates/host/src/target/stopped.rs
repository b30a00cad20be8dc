//! Threads of another process, stopped while it is read.

use std::io;
use std::ptr::{null_mut, without_provenance_mut};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::{Target, state};

/// How long threads may take to stop: one that waits for a device does not stop before the device answers.
const PATIENCE: Duration = Duration::from_secs(2);

/// Between two looks at whether a thread has stopped.
const BETWEEN_LOOKS: Duration = Duration::from_micros(50);

impl Target {
    /// Stops all threads of the process until the value is dropped. If this process ends, however it does, the kernel
    /// lets them go on.
    ///
    /// # Errors
    /// When tracing is not permitted, or the process has ended.
    pub fn stop(&self) -> Result<Stopped> {
        let mut stopped = Stopped { threads: Vec::new() };
        let until = Instant::now() + PATIENCE;
        // Threads may start others until the last is stopped.
        loop {
            let before = stopped.threads.len();
            for thread in state::threads(self.pid).map_err(|_| state::ended(self.pid))? {
                if stopped.threads.iter().any(|(one, _)| *one == thread as i32) {
                    continue;
                }
                // The system permits it of a thread that has ended no more than of one of another user.
                if let Err(error) = stopped.interrupt(thread as i32)
                    && state::is_alive(self.pid, thread)
                {
                    return Err(state::not_stopped(self.pid, thread, &error));
                }
            }
            if stopped.threads.len() == before {
                break;
            }
            if let Some(thread) = stopped.wait(before, until) {
                bail!(
                    "thread {thread} of process {} did not stop within {} s (state {}): try again, or without --stop",
                    self.pid,
                    PATIENCE.as_secs(),
                    state::state_of(self.pid, thread as u32).unwrap_or('?')
                );
            }
        }
        if stopped.threads.is_empty() {
            return Err(state::ended(self.pid));
        }
        Ok(stopped)
    }
}

/// Stopped threads of another process, which go on when the value is dropped.
pub struct Stopped {
    /// Threads, each with the signal that is delivered to it when it goes on, or 0.
    threads: Vec<(i32, i32)>,
}

impl Stopped {
    /// Asks `thread` to stop. One that has ended meanwhile is not an error.
    fn interrupt(&mut self, thread: i32) -> io::Result<()> {
        // SAFETY: seizing a thread reads and writes no memory of this process.
        if unsafe { libc::ptrace(libc::PTRACE_SEIZE, thread, null_mut::<u8>(), null_mut::<u8>()) } != 0 {
            let error = io::Error::last_os_error();
            return if error.raw_os_error() == Some(libc::ESRCH) { Ok(()) } else { Err(error) };
        }
        self.threads.push((thread, 0));
        // SAFETY: as above.
        unsafe { libc::ptrace(libc::PTRACE_INTERRUPT, thread, null_mut::<u8>(), null_mut::<u8>()) };
        Ok(())
    }

    /// Waits until the threads from `first` on have stopped or ended; returns one that does not stop in time.
    fn wait(&mut self, first: usize, until: Instant) -> Option<i32> {
        for (thread, signal) in &mut self.threads[first..] {
            loop {
                let mut status = 0;
                // SAFETY: waitpid writes to `status` only.
                let changed = unsafe { libc::waitpid(*thread, &raw mut status, libc::__WALL | libc::WNOHANG) };
                let is_interrupted = changed < 0 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted;
                if changed != 0 && !is_interrupted {
                    // A thread may have stopped for a signal before it was interrupted. Letting go delivers it.
                    let is_for_signal = changed > 0 && libc::WIFSTOPPED(status) && status >> 16 == 0;
                    *signal = if is_for_signal { libc::WSTOPSIG(status) } else { 0 };
                    break;
                }
                // The main thread of a process that was killed waits for the others, which are waited for next.
                if matches!(state::state_of(*thread as u32, *thread as u32), None | Some('Z' | 'X')) {
                    break;
                }
                if Instant::now() >= until {
                    return Some(*thread);
                }
                sleep(BETWEEN_LOOKS);
            }
        }
        None
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        for &(thread, signal) in &self.threads {
            let signal = without_provenance_mut::<u8>(signal as usize);
            // SAFETY: detaching reads and writes no memory of this process. It fails for a thread that has ended, and
            // for one that has not stopped: the kernel lets that one go on when this process ends.
            unsafe { libc::ptrace(libc::PTRACE_DETACH, thread, null_mut::<u8>(), signal) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::process::{Command, Stdio};

    #[test]
    fn a_stopped_process_goes_on() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let target = Target::open(child.id()).unwrap();
        let state = || {
            let text = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
            text.split(' ').nth(2).unwrap().to_owned()
        };
        for _ in 0..20 {
            let stopped = target.stop().unwrap();
            assert_eq!(state(), "t");
            drop(stopped);
            assert_ne!(state(), "t");
        }
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }

    #[test]
    fn signals_reach_a_process_that_is_stopped_again_and_again() {
        let script = "n=0; trap 'n=$((n + 1))' USR1; echo ready; while [ $n -lt 40 ]; do :; done; echo $n";
        let mut child = Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        std::io::BufRead::read_line(&mut out, &mut line).unwrap();
        let target = Target::open(child.id()).unwrap();
        while let Ok(None) = child.try_wait() {
            // SAFETY: a signal to a child that has not been waited for.
            unsafe { libc::kill(child.id() as i32, libc::SIGUSR1) };
            // The program may end at any time.
            if let Ok(stopped) = target.stop() {
                // SAFETY: as above.
                unsafe { libc::kill(child.id() as i32, libc::SIGUSR1) };
                drop(stopped);
            }
        }
        line.clear();
        std::io::BufRead::read_line(&mut out, &mut line).unwrap();
        assert!(line.trim_end().parse::<u32>().unwrap() >= 40, "{line}");
    }

    #[test]
    fn a_process_that_is_stopped_already_is_read_and_stays_stopped() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        // SAFETY: signals to a child that has not been waited for.
        unsafe { libc::kill(child.id() as i32, libc::SIGSTOP) };
        let target = Target::open(child.id()).unwrap();
        let state = || state::state_of(child.id(), child.id());
        while state() != Some('T') {}
        drop(target.stop().unwrap());
        let until = Instant::now() + PATIENCE;
        while state() != Some('T') && Instant::now() < until {}
        assert_eq!(state(), Some('T'));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_thread_that_cannot_stop_is_reported_in_time() {
        // The parent of a vfork is not interrupted before its child ends.
        // SAFETY: the child of the fork calls functions that are safe after a fork only, and does not return.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: without CLONE_VM the new process has memory of its own.
            unsafe {
                if libc::syscall(libc::SYS_clone, libc::CLONE_VFORK | libc::SIGCHLD, 0, 0, 0, 0) == 0 {
                    libc::sleep(6);
                }
                libc::_exit(0);
            }
        }
        let target = Target::open(child as u32).unwrap();
        while state::state_of(child as u32, child as u32) != Some('D') {}
        let error = target.stop().err().unwrap().to_string();
        assert!(error.contains("did not stop within 2 s (state D)"), "{error}");
        // SAFETY: as above.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, null_mut(), libc::__WALL);
        }
    }
}
