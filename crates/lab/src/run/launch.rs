//! Starting a program, standing in for it while it runs, and ending as it ended.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus};

use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;

/// The signals that are meant for the program when somebody sends them to us.
const PASSED_ON: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];

/// A program that has ended.
pub struct Finished {
    /// Its process number.
    pub pid: u32,
    /// How it ended.
    pub status: ExitStatus,
}

/// Runs `command` to its end, passing on to it the signals that are sent to this process meanwhile.
///
/// # Errors
/// It could not be started.
pub fn to_the_end(command: &mut Command) -> io::Result<Finished> {
    let mut signals = SignalsInfo::<WithOrigin>::new(PASSED_ON.into_iter().chain([SIGCHLD]))?;
    let mut child = command.spawn()?;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Finished { pid: child.id(), status });
        }
        for origin in signals.wait() {
            // What a terminal sends, it sends to the program too: only what a process sent is for us to pass on.
            if origin.signal != SIGCHLD && origin.process.is_some() {
                pass_on(&child, origin.signal);
            }
        }
    }
}

fn pass_on(child: &Child, signal: i32) {
    // SAFETY: kill has no preconditions; the child has not been waited for, so its number is still its own. That it
    // may have ended is no error.
    unsafe { libc::kill(child.id() as libc::pid_t, signal) };
}

/// Ends this process by the signal that ended the program; otherwise returns the program's exit code.
pub fn end_as(status: ExitStatus) -> ExitCode {
    match status.signal() {
        Some(signal) => end_by(signal),
        None => ExitCode::from(status.code().map_or(1, |code| code as u8)),
    }
}

/// Ends this process by `signal`.
pub fn end_by(signal: i32) -> ExitCode {
    let no_core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the first call only reads `no_core` (the program has left its core already, ours is of no interest); the
    // others have no preconditions.
    unsafe {
        libc::setrlimit(libc::RLIMIT_CORE, &no_core);
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
    // Only reached if the signal is blocked; this is what a shell reports.
    ExitCode::from(128_u8.saturating_add(signal as u8))
}

/// The name of a signal.
pub fn signal_name(signal: i32) -> &'static str {
    signal_hook::low_level::signal_name(signal).unwrap_or("unknown")
}
