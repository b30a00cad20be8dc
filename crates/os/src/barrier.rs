//! Guard pages.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::errno::errno_kept;
use crate::pages::{Refused, granted, refuse_call_if_told};

/// Advice of Linux 6.13 and later: guard pages without a mapping of their own.
const MADV_GUARD_INSTALL: i32 = 102;
const MADV_GUARD_REMOVE: i32 = 103;

/// Whether pages were ever guarded by advice, and by the protection of a mapping.
static ADVISED: AtomicBool = AtomicBool::new(false);
static PROTECTED: AtomicBool = AtomicBool::new(false);

/// Makes a few pages guard pages: every touch ends the process. Their contents are lost.
///
/// # Errors
/// [`Refused`] before Linux 6.13, when the process has too many mappings: there, each guarded range is a mapping.
///
/// # Safety
/// Start and length are multiples of the page size. The range is private anonymous memory that the caller owns and that
/// is not in use.
pub unsafe fn guard(start: NonNull<u8>, length: usize) -> Result<(), Refused> {
    // SAFETY: the range is page-aligned memory that the caller owns and that is not in use, as this function requires.
    unsafe {
        if advise(start, length, MADV_GUARD_INSTALL).is_ok() {
            ADVISED.store(true, Ordering::Relaxed);
            return Ok(());
        }
        PROTECTED.store(true, Ordering::Relaxed);
        forbid(start, length)
    }
}

/// Undoes every [`guard`] and [`forbid`] in a range.
///
/// # Errors
/// [`Refused`] when the process has too many mappings, or the system has no memory for it.
///
/// # Safety
/// As [`guard`].
pub unsafe fn unguard(start: NonNull<u8>, length: usize) -> Result<(), Refused> {
    // SAFETY: the range is page-aligned memory that the caller owns and that is not in use, as this function requires.
    unsafe {
        if ADVISED.load(Ordering::Relaxed) {
            advise(start, length, MADV_GUARD_REMOVE)?;
        }
        if PROTECTED.load(Ordering::Relaxed) { permit(start, length) } else { Ok(()) }
    }
}

/// Forbids every access to a range of any length, as a mapping of its own. Its contents stay.
///
/// # Errors
/// [`Refused`] when the process has too many mappings.
///
/// # Safety
/// As [`guard`].
pub unsafe fn forbid(start: NonNull<u8>, length: usize) -> Result<(), Refused> {
    // SAFETY: the range is page-aligned memory that the caller owns and that is not in use, as this function requires.
    unsafe { protect(start, length, libc::PROT_NONE) }
}

/// Permits reading and writing of a range.
///
/// # Errors
/// As [`forbid`].
///
/// # Safety
/// As [`guard`].
pub unsafe fn permit(start: NonNull<u8>, length: usize) -> Result<(), Refused> {
    // SAFETY: the range is page-aligned memory that the caller owns and that is not in use, as this function requires.
    unsafe { protect(start, length, libc::PROT_READ | libc::PROT_WRITE) }
}

/// # Safety
/// As [`guard`].
unsafe fn protect(start: NonNull<u8>, length: usize, protection: i32) -> Result<(), Refused> {
    refuse_call_if_told()?;
    // SAFETY: the range is page-aligned memory that the caller owns and that is not in use, as this function requires.
    granted(errno_kept(|| unsafe { libc::mprotect(start.as_ptr().cast(), length, protection) }))
}

/// # Safety
/// As [`guard`].
unsafe fn advise(start: NonNull<u8>, length: usize, advice: i32) -> Result<(), Refused> {
    refuse_call_if_told()?;
    // SAFETY: the range is page-aligned memory that the caller owns and that is not in use, as this function requires.
    granted(errno_kept(|| unsafe { libc::madvise(start.as_ptr().cast(), length, advice) }))
}
