//! Ctrl-C and requests to end: the first ends the current work in an orderly way, the second ends the process at once.
//!
//! A second signal that comes at once is the same request: `timeout` of coreutils sends its signal to the command, and
//! again to its process group.
//!
//! A command that has partial results to keep holds an [`Interruption`] and asks it. Without one, the first signal ends
//! the process. Either way its [temporary files](crate::temporary) are removed.

use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level;

use crate::cleanup;
use crate::files;
use crate::process::{without_ignored_hangup, without_signals};

const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// How long after a signal others are the same request, in milliseconds.
const SAME_REQUEST: u64 = 500;

/// Number of [`Interruption`]s, and of [`PassedOn`]s.
static LISTENERS: AtomicUsize = AtomicUsize::new(0);
static PASSING: AtomicUsize = AtomicUsize::new(0);
/// The signal that interrupted this command, or 0. Like the next two, set by the handler itself: the thread below may
/// run much later, when the command no longer listens, or the program that the signal was passed on to has ended.
static CAME: AtomicI32 = AtomicI32::new(0);
/// Whether a signal was left to an [`Interruption`].
static LEFT: AtomicBool = AtomicBool::new(false);
/// When the last request came ([`monotonic_milliseconds`]); 0 before the first.
static REQUESTED: AtomicU64 = AtomicU64::new(0);
/// Whether a signal came that ends this process.
static ENDS: AtomicBool = AtomicBool::new(false);
/// Whether the thread below runs.
static WATCHED: Mutex<bool> = Mutex::new(false);

/// Returns whether an [`Interruption`] was requested.
pub fn came() -> bool {
    CAME.load(Ordering::Relaxed) != 0
}

/// Returns the exit code of a command that was interrupted, as in shells: 130 after Ctrl-C, 143 after SIGTERM.
pub fn exit_code() -> ExitCode {
    exit_code_of(CAME.load(Ordering::Relaxed))
}

/// Returns the exit code of a command that `signal` interrupted.
pub fn exit_code_of(signal: i32) -> ExitCode {
    ExitCode::from(128_u8.saturating_add(signal as u8))
}

/// Starts the thread that ends this process when a signal comes, unless it runs already.
pub(crate) fn watch() -> io::Result<()> {
    let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    if !*watched {
        let heeded = without_ignored_hangup(&SIGNALS);
        for &signal in &heeded {
            // SAFETY: the handler does nothing but load and store words and read a clock, which is async-signal-safe.
            unsafe { low_level::register(signal, move || record_arrival(signal)) }?;
        }
        // Handlers run in the order in which they were registered.
        let mut signals = Signals::new(heeded)?;
        let wait = move || signals.forever().for_each(take);
        // Handlers run in the threads that wait for their signals, whose pipes are open for as long as they wait.
        without_signals(|| thread::Builder::new().name("signals".to_owned()).spawn(wait))?;
        *watched = true;
    }
    Ok(())
}

fn record_arrival(signal: i32) {
    if !is_new_request() {
        return;
    }
    let is_listening = LISTENERS.load(Ordering::Relaxed) > 0;
    if is_listening {
        CAME.store(signal, Ordering::Relaxed);
    }
    if PASSING.load(Ordering::Relaxed) > 0 || is_listening && !LEFT.swap(true, Ordering::Relaxed) {
        return;
    }
    ENDS.store(true, Ordering::Release);
}

/// Records that a signal came. Returns whether it is a request of its own, and not one that came a moment before.
fn is_new_request() -> bool {
    let (now, before) = (monotonic_milliseconds(), REQUESTED.load(Ordering::Relaxed));
    let is_same = before != 0 && now.saturating_sub(before) < SAME_REQUEST;
    // Another thread may handle another signal at this moment.
    !is_same && REQUESTED.compare_exchange(before, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

/// Returns a time that is not 0. Signal handlers may ask for it.
fn monotonic_milliseconds() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    1 + now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

fn take(signal: i32) {
    if ENDS.load(Ordering::Acquire) {
        cleanup::remove_all();
        // Fails only for signals that this process cannot receive.
        let _ = low_level::emulate_default_handler(signal);
    }
}

/// Records whether this command was interrupted, while it lives.
pub struct Interruption(());

impl Interruption {
    /// Installs the signal handlers.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn listen() -> Result<Interruption> {
        watch().context("cannot listen for signals")?;
        LISTENERS.fetch_add(1, Ordering::Relaxed);
        Ok(Interruption(()))
    }

    /// Returns whether an interruption was requested.
    pub fn came(&self) -> bool {
        came()
    }

    /// Opens a file whose reads end at an interruption.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(&self, path: &Path) -> Result<Interruptible> {
        Ok(Interruptible { file: files::open(path)? })
    }
}

impl Drop for Interruption {
    fn drop(&mut self) {
        // From now on signals end the process.
        LISTENERS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// While this lives, signals are passed on to a program and do not end this process.
pub struct PassedOn(());

impl PassedOn {
    /// Leaves signals to the caller.
    pub fn begin() -> PassedOn {
        PASSING.fetch_add(1, Ordering::Relaxed);
        PassedOn(())
    }
}

impl Drop for PassedOn {
    fn drop(&mut self) {
        PASSING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A file whose reads end at an interruption.
pub struct Interruptible {
    file: files::Source,
}

impl Read for Interruptible {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if came() {
            return Err(io::Error::other("interrupted"));
        }
        self.file.read(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_command_can_listen_twice() {
        drop(Interruption::listen().unwrap());
        let second = Interruption::listen().unwrap();
        assert!(!second.came());
        // Without a listener, this would end the process.
        low_level::raise(SIGTERM).unwrap();
        assert!(second.came());
        // The command ceases to listen before the watching thread takes the signal, as on a busy machine.
        drop(second);
        thread::sleep(Duration::from_millis(200));
        assert!(came());
    }
}
