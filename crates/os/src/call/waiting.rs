//! Waiting, and protection from cancellation and signals, inside a library that replaces `malloc`.

use core::ffi::c_int;
use core::ptr::null_mut;

use crate::call::errno::errno_kept;
use crate::call::refused::Refused;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

const CANCEL_DISABLE: c_int = 1;

/// Runs `call` with cancellation (`pthread_cancel`) disabled: opening a file and waiting are cancellation points, and
/// `malloc` must not be one.
pub fn uncancelled<R>(call: impl FnOnce() -> R) -> R {
    let mut before = 0;
    // SAFETY: the old state is written to a local variable.
    unsafe { pthread_setcancelstate(CANCEL_DISABLE, &mut before) };
    let result = call();
    // SAFETY: the state is the one that the first call returned, and null is allowed for the old state.
    unsafe { pthread_setcancelstate(before, null_mut()) };
    result
}

/// Runs `call` with all signals blocked in this thread. A signal that a fault of the thread raises ends the process.
pub fn undisturbed<R>(call: impl FnOnce() -> R) -> R {
    // SAFETY: signal sets consist of integers, for which zeros are valid; the calls write to local variables.
    unsafe {
        let (mut all, mut before) = (core::mem::zeroed(), core::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let result = call();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, null_mut());
        result
    }
}

/// A set of signals, as the system has it.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Signals(u64);

impl Signals {
    const NONE: Signals = Signals(0);

    /// The signals that end a process which writes to a pipe without a reader, or more than its limit on file sizes
    /// allows.
    const OF_REFUSED_WRITES: Signals = Signals(1 << (libc::SIGPIPE - 1) | 1 << (libc::SIGXFSZ - 1));

    /// Blocks, unblocks or sets these signals in this thread; returns those that were blocked before.
    fn mask(self, how: c_int) -> Signals {
        let mut before = Signals::NONE;
        // SAFETY: both sets are local variables of the length that is given.
        unsafe { libc::syscall(libc::SYS_rt_sigprocmask, how, &self, &mut before, size_of::<Signals>()) };
        before
    }

    /// Takes one of these signals that waits for this thread to unblock it, if any does, so that it has no effect.
    fn take_one(self) {
        let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let no_details = null_mut::<libc::siginfo_t>();
        // SAFETY: the set and the time are local variables, the set of the length that is given; null is allowed for
        // the details.
        unsafe {
            libc::syscall(libc::SYS_rt_sigtimedwait, &self, no_details, &at_once, size_of::<Signals>());
        }
    }
}

/// Runs `write`, which the system may refuse with `SIGPIPE` or `SIGXFSZ` besides an error. The signal has no effect:
/// what this library writes, the program did not.
///
/// # Errors
/// As `write`.
pub(crate) fn without_signals_of_refusal(write: impl FnOnce() -> Result<(), Refused>) -> Result<(), Refused> {
    errno_kept(|| {
        let before = Signals::OF_REFUSED_WRITES.mask(libc::SIG_BLOCK);
        let result = write().inspect_err(|_| Signals::OF_REFUSED_WRITES.take_one());
        before.mask(libc::SIG_SETMASK);
        result
    })
}

/// Sleeps for a millisecond, or less when a signal interrupts it. The thread is not cancelled meanwhile.
pub fn sleep_for_a_millisecond() {
    let time = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
    // SAFETY: the time is a local variable, and null stands for no remaining time.
    uncancelled(|| errno_kept(|| unsafe { libc::nanosleep(&time, null_mut()) }));
}
