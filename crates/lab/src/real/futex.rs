//! Waiting for a word to change, without allocating.

use std::ptr::null;
use std::sync::atomic::{AtomicU32, Ordering};

/// Waits while `word` is `value`.
pub fn wait_while(word: &AtomicU32, value: u32) {
    while word.load(Ordering::Acquire) == value {
        // SAFETY: the word is valid; the kernel looks at it again before this thread sleeps, and an early return is
        // seen by the loop.
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

/// Wakes whoever waits for `word` to change.
pub fn wake_all(word: &AtomicU32) {
    // SAFETY: the word is valid.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, i32::MAX) };
}
