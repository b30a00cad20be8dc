//! How what a heap says gets to its caller.

use core::ptr::NonNull;

use heapwright_shared::SharedHeap;

use super::failure::Failure;
use crate::handle::{Handle, open_shared};
use crate::types::Status;

/// Stores what `work` gets from the heap in `out`, which is left alone on failure. Nothing is done when it is null.
///
/// # Safety
/// As [`open_shared`]; `out` is null or may be written.
#[inline]
pub(crate) unsafe fn answer<T, E>(
    handle: *const Handle,
    out: *mut T,
    work: impl FnOnce(&SharedHeap) -> Result<T, E>,
) -> Result<(), Failure>
where
    Failure: From<E>,
{
    let out = NonNull::new(out).ok_or(Status::NullPointer)?;
    // SAFETY: the caller's promise.
    unsafe { out.write(work(open_shared(handle)?)?) };
    Ok(())
}

/// As [`answer`], where null says that the answer is not wanted.
///
/// # Safety
/// As [`answer`].
pub(crate) unsafe fn answer_if_wanted<T, E>(
    handle: *const Handle,
    out: *mut T,
    work: impl FnOnce(&SharedHeap) -> Result<T, E>,
) -> Result<(), Failure>
where
    Failure: From<E>,
{
    // SAFETY: the caller's promise.
    let value = work(unsafe { open_shared(handle) }?)?;
    if let Some(out) = NonNull::new(out) {
        // SAFETY: the caller's promise.
        unsafe { out.write(value) };
    }
    Ok(())
}
