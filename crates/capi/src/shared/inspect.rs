//! Queries about a shared heap: its blocks, processes and roots, and what can be reclaimed.

use core::ffi::c_void;

use heapwright_shared::{Error, Leavers, SharedHeap};

use super::failure::Failure;
use super::types::{SharedBlock, SharedProcess, SharedReclaimed, SharedRoot};
use crate::out::store_if_wanted;
use crate::types::{Status, Violation, Visit, cut};

/// Calls `visit` for everything in `list` until it returns another number than 0. The segment's lock is not held during
/// the calls.
///
/// # Safety
/// `visit` may be called with `context`.
unsafe fn show<T, L>(
    list: impl IntoIterator<Item = Result<L, Error>>,
    describe: impl Fn(L) -> T,
    visit: Option<Visit<T>>,
    context: *mut c_void,
) -> Result<(), Failure> {
    let visit = visit.ok_or(Status::NullPointer)?;
    for listed in list {
        // SAFETY: the visitor may be called with this context, as this function requires, and the item is a local
        // variable.
        if unsafe { visit(&describe(listed?), context) } != 0 {
            break;
        }
    }
    Ok(())
}

/// What was listed, item by item.
fn each<L>(list: Result<Vec<L>, Error>) -> Result<impl Iterator<Item = Result<L, Error>>, Failure> {
    Ok(list?.into_iter().map(Ok))
}

/// # Safety
/// As for [`show`].
pub(crate) unsafe fn walk(
    heap: &SharedHeap,
    visit: Option<Visit<SharedBlock>>,
    context: *mut c_void,
) -> Result<(), Failure> {
    // SAFETY: the visitor may be called with this context, as this function requires.
    unsafe { show(heap.walk(), |block| SharedBlock::of(heap, &block), visit, context) }
}

/// # Safety
/// As for [`show`].
pub(crate) unsafe fn left_behind(
    heap: &SharedHeap,
    visit: Option<Visit<SharedBlock>>,
    context: *mut c_void,
) -> Result<(), Failure> {
    // SAFETY: the visitor may be called with this context, as this function requires.
    unsafe { show(each(heap.left_behind())?, |block| SharedBlock::of(heap, &block), visit, context) }
}

/// # Safety
/// As for [`show`].
pub(crate) unsafe fn processes(
    heap: &SharedHeap,
    visit: Option<Visit<SharedProcess>>,
    context: *mut c_void,
) -> Result<(), Failure> {
    // SAFETY: the visitor may be called with this context, as this function requires.
    unsafe { show(each(heap.processes())?, SharedProcess::from, visit, context) }
}

/// # Safety
/// As for [`show`].
pub(crate) unsafe fn roots(
    heap: &SharedHeap,
    visit: Option<Visit<SharedRoot>>,
    context: *mut c_void,
) -> Result<(), Failure> {
    // SAFETY: the visitor may be called with this context, as this function requires.
    unsafe { show(each(heap.roots())?, SharedRoot::from, visit, context) }
}

/// Verifies every invariant of the heap; stores the first that does not hold at `out`, unless that is null.
///
/// # Safety
/// `out` is null or valid for a write.
pub(crate) unsafe fn check(heap: &SharedHeap, out: *mut Violation) -> Result<(), Failure> {
    let checked = heap.check();
    if let Err(Error::Corrupted { what, offset }) = checked {
        let violation = Violation { offset: usize::try_from(offset).unwrap_or(usize::MAX), invariant: cut(what) };
        // SAFETY: `out` is null or valid for a write, as this function requires.
        unsafe { store_if_wanted(out, violation) };
    }
    Ok(checked?)
}

pub(crate) fn reclaim(heap: &SharedHeap, whose: u32) -> Result<SharedReclaimed, Failure> {
    Ok(heap.reclaim(leavers(whose)?)?.into())
}

/// Decodes `HW_RECLAIM_*`.
pub(crate) fn leavers(whose: u32) -> Result<Leavers, Failure> {
    match whose {
        0 => Ok(Leavers::Dead),
        1 => Ok(Leavers::DeadAndClosed),
        _ => Err(Failure::option("whose is HW_RECLAIM_DEAD or HW_RECLAIM_DEAD_AND_CLOSED")),
    }
}
