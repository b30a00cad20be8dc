//! What was to be done with signals when this command began: what a program that it starts is to find.
//!
//! Signals that are ignored stay ignored in what a process executes (POSIX, `execve`): a background job of a script
//! ignores Ctrl-C that way. Rust's runtime and the handlers of this command change that for themselves.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

/// The signals that were ignored, signal `n` as bit `n - 1`; [`UNKNOWN`] before that was looked at.
static IGNORED: AtomicU64 = AtomicU64::new(UNKNOWN);

/// SIGKILL cannot be ignored.
const UNKNOWN: u64 = 1 << (libc::SIGKILL - 1);

/// The number of signals of Linux.
const SIGNALS: i32 = 64;

/// Runs before `main`, and before Rust's runtime has SIGPIPE ignored.
#[used]
// SAFETY: the section is for functions of this type, and this one needs nothing that is not there before `main`.
#[unsafe(link_section = ".init_array")]
static FIRST: extern "C" fn() = look;

/// Looks at what is ignored. From then on children that end are told of, whatever the parent of this process had asked
/// for: otherwise their exit statuses are lost.
extern "C" fn look() {
    let ignored = (1..=SIGNALS).filter(|&signal| is_ignored(signal)).fold(0, |all, signal| all | 1 << (signal - 1));
    IGNORED.store(ignored, Ordering::Relaxed);
    // SAFETY: the default action runs no code of this process.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

fn is_ignored(signal: i32) -> bool {
    // SAFETY: a sigaction consists of integers, a mask and nullable pointers, for which zeroes are valid; without a new
    // action, the call only writes the present one.
    unsafe {
        let mut present: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut present) == 0 && present.sa_sigaction == libc::SIG_IGN
    }
}

fn ignored() -> u64 {
    if IGNORED.load(Ordering::Relaxed) == UNKNOWN {
        FIRST();
    }
    IGNORED.load(Ordering::Relaxed)
}

/// Returns whether a signal was ignored when this command began.
pub fn was_ignored(signal: i32) -> bool {
    ignored() & 1 << (signal - 1) != 0
}

/// Makes `command` start with the signals ignored that were ignored when this command began.
///
/// What has to be said between fork and exec makes the system's C library execute the command: it passes a text that
/// names no interpreter on to a shell, where the system refuses it. It is said only where there is something to say.
pub fn start_with_inherited_signals(command: &mut Command) {
    // A command has SIGPIPE by default, whatever this process has.
    let is_lost = |signal: &i32| was_ignored(*signal) && (*signal == libc::SIGPIPE || !is_ignored(*signal));
    let lost: Vec<i32> = (1..=SIGNALS).filter(is_lost).collect();
    if lost.is_empty() {
        return;
    }
    // SAFETY: between fork and exec only `signal` is called, which is async-signal-safe and allocates nothing.
    unsafe {
        command.pre_exec(move || {
            lost.iter().for_each(|&signal| _ = libc::signal(signal, libc::SIG_IGN));
            Ok(())
        });
    }
}
