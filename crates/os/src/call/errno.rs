//! The C library's error number of this thread.

/// Sets this thread's `errno`.
pub fn set_errno(code: i32) {
    // SAFETY: the C library returns the address of this thread's `errno`.
    unsafe { *libc::__errno_location() = code };
}

/// This thread's `errno`.
pub(crate) fn errno() -> i32 {
    // SAFETY: the C library returns the address of this thread's `errno`.
    unsafe { *libc::__errno_location() }
}

/// Runs `call` and restores `errno`: `free` must not change it, and functions here do not report errors by it.
pub fn errno_kept<R>(call: impl FnOnce() -> R) -> R {
    let before = errno();
    let result = call();
    set_errno(before);
    result
}
