//! Waiting, and protection from cancellation and signals, inside a library that replaces `malloc`.

use core::ffi::c_int;
use core::ptr::null_mut;

use crate::errno::errno_kept;

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

/// Sleeps for a millisecond, or less when a signal interrupts it. The thread is not cancelled meanwhile.
pub fn sleep_for_a_millisecond() {
    let time = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
    // SAFETY: the time is a local variable, and null stands for no remaining time.
    uncancelled(|| errno_kept(|| unsafe { libc::nanosleep(&time, null_mut()) }));
}
