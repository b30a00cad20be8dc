//! Waits for a word to change, without allocating.

use std::ptr::null;
use std::sync::atomic::{AtomicU32, Ordering};

/// Waits while `word` is `value`.
pub fn wait_while(word: &AtomicU32, value: u32) {
    while word.load(Ordering::Acquire) == value {
        // SAFETY: `word` is a reference, so that the pointer stays valid during the call. The kernel compares the word
        // again before this thread sleeps, and the loop repeats after an early return.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                word.as_ptr(),
                libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                value,
                null::<libc::timespec>(),
            )
        };
    }
}

/// Wakes all threads that wait for `word` to change.
pub fn wake_all(word: &AtomicU32) {
    // SAFETY: `word` is a reference, so that the pointer stays valid during the call; waking writes no memory.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, i32::MAX) };
}
