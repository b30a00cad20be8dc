//! What can be asked about a shared heap.

use core::ffi::c_void;

use heapwright_shared::{Error, Leavers, SharedHeap};

use super::answer::answer_if_wanted;
use super::failure::Failure;
use super::types::{SharedBlock, SharedProcess, SharedReclaimed, SharedRoot};
use crate::handle::{Handle, open_shared};
use crate::types::{Status, Violation, Visit, cut};

/// What `ask` says of the heap; nothing (0, mostly) when there is none.
///
/// # Safety
/// As [`open_shared`].
pub(crate) unsafe fn of<T>(handle: *const Handle, ask: impl FnOnce(&SharedHeap) -> T) -> Result<T, Failure> {
    // SAFETY: the caller's promise.
    Ok(ask(unsafe { open_shared(handle) }?))
}

/// How many bytes of blocks the heap holds now.
///
/// # Safety
/// As [`open_shared`].
pub(crate) unsafe fn size(handle: *const Handle) -> Result<usize, Failure> {
    // SAFETY: the caller's promise.
    Ok(unsafe { open_shared(handle) }?.size()?)
}

/// Shows everything that `list` lists to `visit`, until it says otherwise. The lock is not held meanwhile.
///
/// # Safety
/// As [`open_shared`]; `visit` may be called with `context`.
unsafe fn show<T, L>(
    handle: *const Handle,
    list: impl FnOnce(&SharedHeap) -> Result<Vec<L>, Error>,
    describe: impl Fn(&SharedHeap, L) -> T,
    visit: Option<Visit<T>>,
    context: *mut c_void,
) -> Result<(), Failure> {
    let visit = visit.ok_or(Status::NullPointer)?;
    // SAFETY: the caller's promise.
    let heap = unsafe { open_shared(handle) }?;
    for listed in list(heap)? {
        // SAFETY: the caller's promise.
        if unsafe { visit(&describe(heap, listed), context) } != 0 {
            break;
        }
    }
    Ok(())
}

/// # Safety
/// As [`show`].
pub(crate) unsafe fn walk(
    handle: *const Handle,
    visit: Option<Visit<SharedBlock>>,
    context: *mut c_void,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    unsafe { show(handle, SharedHeap::blocks, |heap, block| SharedBlock::of(heap, &block), visit, context) }
}

/// # Safety
/// As [`show`].
pub(crate) unsafe fn left_behind(
    handle: *const Handle,
    visit: Option<Visit<SharedBlock>>,
    context: *mut c_void,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    unsafe { show(handle, SharedHeap::left_behind, |heap, block| SharedBlock::of(heap, &block), visit, context) }
}

/// # Safety
/// As [`show`].
pub(crate) unsafe fn processes(
    handle: *const Handle,
    visit: Option<Visit<SharedProcess>>,
    context: *mut c_void,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    unsafe { show(handle, SharedHeap::processes, |_, process| process.into(), visit, context) }
}

/// # Safety
/// As [`show`].
pub(crate) unsafe fn roots(
    handle: *const Handle,
    visit: Option<Visit<SharedRoot>>,
    context: *mut c_void,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    unsafe { show(handle, SharedHeap::roots, |_, root| root.into(), visit, context) }
}

/// # Safety
/// As [`open_shared`]; `out` is null or may be written.
pub(crate) unsafe fn check(handle: *const Handle, out: *mut Violation) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    let checked = unsafe { open_shared(handle) }?.check();
    if let Err(Error::Corrupted { what, offset }) = checked {
        let violation = Violation { offset: usize::try_from(offset).unwrap_or(usize::MAX), invariant: cut(what) };
        // SAFETY: the caller's promise.
        if let Some(out) = unsafe { out.as_mut() } {
            *out = violation;
        }
    }
    Ok(checked?)
}

/// # Safety
/// As [`open_shared`]; `out` is null or may be written.
pub(crate) unsafe fn reclaim(handle: *const Handle, whose: u32, out: *mut SharedReclaimed) -> Result<(), Failure> {
    let whose = match whose {
        0 => Leavers::Dead,
        1 => Leavers::DeadAndClosed,
        _ => return Err(Status::BadOptions.into()),
    };
    // SAFETY: the caller's promise.
    unsafe { answer_if_wanted(handle, out, |heap| heap.reclaim(whose).map(SharedReclaimed::from)) }
}
