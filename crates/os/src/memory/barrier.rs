//! Guard pages.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};

use crate::call::errno::{errno, errno_kept};
use crate::call::refused::{Refused, granted, refuse_call_if_told};
use crate::memory::platform::{MADV_GUARD_INSTALL, MADV_GUARD_REMOVE, is_unsupported, platform};

/// Whether pages were ever guarded by advice.
static ADVISED: AtomicBool = AtomicBool::new(false);

/// How a range is guarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guarded {
    /// By advice, without a mapping of its own (Linux 6.13).
    ByAdvice,
    /// By the protection of a mapping of its own.
    ByProtection,
}

/// Makes a few pages guard pages: every touch ends the process. Their contents are lost.
///
/// # Errors
/// [`Refused`] when the process has too many mappings, and before Linux 6.13, where each guarded range is a mapping,
/// when 8192 ranges are guarded: see [`Platform::protected_guards`](crate::Platform::protected_guards).
///
/// # Safety
/// Start and length are multiples of the page size. The range is private anonymous memory that the caller owns and that
/// is not in use.
pub unsafe fn guard(start: NonNull<u8>, length: usize) -> Result<Guarded, Refused> {
    // SAFETY: the range is page-aligned memory that the caller owns and that is not in use, as this function requires.
    unsafe {
        if guard_by_advice(start, length).is_ok() {
            ADVISED.store(true, Ordering::Relaxed);
            return Ok(Guarded::ByAdvice);
        }
        if !platform().count_protected() {
            return Err(Refused);
        }
        forbid(start, length).inspect_err(|_| platform().discount_protected(1))?;
        Ok(Guarded::ByProtection)
    }
}

/// # Safety
/// As [`guard`].
unsafe fn guard_by_advice(start: NonNull<u8>, length: usize) -> Result<(), Refused> {
    let known = platform().guard_advice();
    if !platform().can_guard_by_advice() {
        return Err(Refused);
    }
    refuse_call_if_told()?;
    // SAFETY: the range is page-aligned memory that the caller owns and that is not in use, as this function requires.
    let call = |advice| unsafe { libc::madvise(start.as_ptr().cast(), length, advice) };
    errno_kept(|| {
        if call(MADV_GUARD_INSTALL) == 0 {
            return Ok(());
        }
        // Locked memory cannot be guarded by advice, but guards can be removed from it unless the system has none.
        if is_unsupported(errno()) {
            known.call(|| call(MADV_GUARD_REMOVE));
        }
        Err(Refused)
    })
}

/// Undoes every [`guard`] in a range, of which `protected` were [`Guarded::ByProtection`].
///
/// # Errors
/// [`Refused`] when the process has too many mappings, or the system has no memory for it.
///
/// # Safety
/// As [`guard`].
pub unsafe fn unguard(start: NonNull<u8>, length: usize, protected: usize) -> Result<(), Refused> {
    // SAFETY: the range is page-aligned memory that the caller owns and that is not in use, as this function requires.
    unsafe {
        if ADVISED.load(Ordering::Relaxed) {
            advise(start, length, MADV_GUARD_REMOVE)?;
        }
        if protected != 0 {
            permit(start, length)?;
            platform().discount_protected(protected);
        }
        Ok(())
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
