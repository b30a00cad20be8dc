//! Runs a program, forwards signals to it, and exits as it did.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, ExitStatus};

use heapwright_host::dispositions::start_with_inherited_signals;
use heapwright_host::interruption::PassedOn;
use heapwright_host::process::{end_by_signal, leads_its_session, name_of, send_signal, without_ignored_hangup};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::{WithOrigin, origin::Origin};

/// Signals that this command forwards to the program.
const PASSED_ON: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];

/// Those of them that ask a command to end.
const ENDING: [i32; 3] = [SIGHUP, SIGINT, SIGTERM];

/// A program that has ended.
pub struct Finished {
    /// Its process id.
    pub pid: u32,
    /// Its exit status.
    pub status: ExitStatus,
    /// The name that the system gave its process last ([`name_of`]).
    pub name: Option<OsString>,
    /// The first signal by which another process asked this command to end meanwhile.
    pub asked_to_end: Option<i32>,
}

/// The signals that other processes send to this one while it lives, to be forwarded to a program; but for a SIGHUP
/// that is ignored, as under `nohup`. The terminal sends its signals to the program too: they are not among these. When
/// it hangs up, it tells the leader of the session only, which this process may be.
pub struct Forwarded(SignalsInfo<WithOrigin>);

impl Forwarded {
    /// Begins to collect the signals.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn listen() -> io::Result<Forwarded> {
        Forwarded::listen_also_to(&[])
    }

    fn listen_also_to(others: &[i32]) -> io::Result<Forwarded> {
        let forwarded = without_ignored_hangup(&PASSED_ON);
        Ok(Forwarded(SignalsInfo::new(forwarded.iter().chain(others))?))
    }

    /// Returns the signals that came since the last call.
    pub fn pending(&mut self) -> impl Iterator<Item = i32> {
        self.0.pending().filter_map(to_be_forwarded)
    }

    /// Waits for a signal, and returns those that came.
    fn wait(&mut self) -> impl Iterator<Item = i32> {
        self.0.wait().filter_map(to_be_forwarded)
    }
}

fn to_be_forwarded(origin: Origin) -> Option<i32> {
    let is_sent = origin.process.is_some() || origin.signal == SIGHUP && leads_its_session();
    (origin.signal != SIGCHLD && is_sent).then_some(origin.signal)
}

/// Runs `command` to its end, and forwards to it the signals that are sent to this process meanwhile. What this process
/// was told to ignore, the program ignores.
///
/// # Errors
/// The program could not be started.
pub fn to_the_end(command: &mut Command) -> io::Result<Finished> {
    let _passed_on = PassedOn::begin();
    let mut signals = Forwarded::listen_also_to(&[SIGCHLD])?;
    start_with_inherited_signals(command);
    let mut child = command.spawn()?;
    let mut asked_to_end = None;
    loop {
        // A process that was waited for has no name.
        let name = name_of(child.id());
        if let Some(status) = child.try_wait()? {
            // A signal to both may have ended the program before this command took it.
            let asked_to_end = asked_to_end.or_else(|| signals.pending().find(|signal| ENDING.contains(signal)));
            return Ok(Finished { pid: child.id(), status, name, asked_to_end });
        }
        for signal in signals.wait() {
            asked_to_end = asked_to_end.or(Some(signal).filter(|signal| ENDING.contains(signal)));
            send_signal(&child, signal);
        }
    }
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
    end_by_signal(signal);
    // Only reached if the signal is blocked; this is what a shell reports.
    ExitCode::from(128_u8.saturating_add(signal as u8))
}

/// Returns the name of a signal.
pub fn signal_name(signal: i32) -> &'static str {
    signal_hook::low_level::signal_name(signal).unwrap_or("unknown")
}

/// Describes how a program ended.
pub fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal} ({})", signal_name(signal)),
        (None, None) => "no exit code".to_owned(),
    }
}
