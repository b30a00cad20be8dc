//! Results that C receives through a pointer, and strings that C passes.

use core::ffi::{CStr, c_char};
use core::ptr::{NonNull, null_mut};

use crate::handle::Handle;
use crate::types::Status;

/// Stores the result of `work` at `out`, which keeps its value on failure. When `out` is null, `work` is not called.
///
/// # Safety
/// `out` is null or valid for a write.
#[inline]
pub(crate) unsafe fn store<T, E: From<Status>>(out: *mut T, work: impl FnOnce() -> Result<T, E>) -> Result<(), E> {
    let out = NonNull::new(out).ok_or(Status::NullPointer)?;
    let value = work()?;
    // SAFETY: `out` is not null, hence valid for a write, as this function requires.
    unsafe { out.write(value) };
    Ok(())
}

/// Stores `value` at `out`, unless `out` is null.
///
/// # Safety
/// `out` is null or valid for a write.
pub(crate) unsafe fn store_if_wanted<T>(out: *mut T, value: T) {
    if let Some(out) = NonNull::new(out) {
        // SAFETY: `out` is not null, hence valid for a write, as this function requires.
        unsafe { out.write(value) };
    }
}

/// Stores the handle that `make` returns at `out`, or null on failure. When `out` is null, `make` is not called.
///
/// # Safety
/// `out` is null or valid for a write.
pub(crate) unsafe fn store_handle<E: From<Status>>(
    out: *mut *mut Handle,
    make: impl FnOnce() -> Result<*mut Handle, E>,
) -> Result<(), E> {
    let out = NonNull::new(out).ok_or(Status::NullPointer)?;
    let made = make();
    // SAFETY: `out` is not null, hence valid for a write, as this function requires.
    unsafe { out.write(made.as_ref().copied().unwrap_or(null_mut())) };
    made.map(drop)
}

/// Borrows a string of C's.
///
/// # Errors
/// [`Status::NullPointer`].
///
/// # Safety
/// `text` is null, or the first of bytes that end with a zero and do not change while the result is used.
pub(crate) unsafe fn text_of<'t>(text: *const c_char) -> Result<&'t CStr, Status> {
    if text.is_null() {
        return Err(Status::NullPointer);
    }
    // SAFETY: `text` is not null, hence ends with a zero and stays unchanged, as this function requires.
    Ok(unsafe { CStr::from_ptr(text) })
}
