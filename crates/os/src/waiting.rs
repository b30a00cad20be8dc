//! Waiting inside a library that its process does not know of.

use core::ffi::c_int;
use core::ptr::null_mut;

use crate::errno::errno_kept;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

const CANCEL_DISABLE: c_int = 1;

/// Runs `call`, during which the thread is not cancelled (by `pthread_cancel`): opening a file and waiting are points at
/// which that happens, and `malloc` is none.
pub fn uncancelled<R>(call: impl FnOnce() -> R) -> R {
    let mut before = 0;
    // SAFETY: the old state is written to a local variable.
    unsafe { pthread_setcancelstate(CANCEL_DISABLE, &mut before) };
    let result = call();
    // SAFETY: the state is the one that was there before.
    unsafe { pthread_setcancelstate(before, null_mut()) };
    result
}

/// Runs `call`, during which no handler of a signal runs in this thread. Those that the thread brings upon itself by a fault
/// end the process.
pub fn undisturbed<R>(call: impl FnOnce() -> R) -> R {
    // SAFETY: signal sets are plain integers, filled before they are used; masks are the calling thread's own.
    unsafe {
        let (mut all, mut before) = (core::mem::zeroed(), core::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let result = call();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, null_mut());
        result
    }
}

/// Lets the thread sleep for a millisecond, or less when a signal comes.
pub fn sleep_for_a_millisecond() {
    let time = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
    // SAFETY: the time is there, and what is left of it is not asked for.
    errno_kept(|| unsafe { libc::nanosleep(&time, null_mut()) });
}
