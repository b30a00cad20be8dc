//! What can be asked about a heap.

use core::ffi::{c_char, c_int, c_void};
use core::ptr::NonNull;

use heapwright_heaps::{BlockState, Counters};

use crate::handle::{Handle, each, open};
use crate::types::{Block, Holes, Status, Violation, Visitor};

/// What the status of this number says.
pub(crate) fn text_of(number: c_int) -> *const c_char {
    let known = Status::ALL.into_iter().find(|&status| status as c_int == number);
    known.map_or(c"no such status", Status::text).as_ptr()
}

/// How many bytes the block has, or 0.
///
/// # Safety
/// As [`open`].
pub(crate) unsafe fn usable_size(handle: *const Handle, block: *const c_void) -> usize {
    // SAFETY: the caller's promise.
    let Ok(heap) = (unsafe { open(handle) }) else { return 0 };
    let Some(block) = NonNull::new(block.cast_mut().cast::<u8>()) else { return 0 };
    each!(heap, heap => heap.usable_size(block)).unwrap_or(0)
}

/// The number of the heap's policy, or 0.
///
/// # Safety
/// As [`open`].
pub(crate) unsafe fn policy(handle: *const Handle) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { open(handle) }.map_or(0, |heap| each!(heap, heap => heap.policy()) as u32)
}

/// How many bytes there can be for blocks, or 0.
///
/// # Safety
/// As [`open`].
pub(crate) unsafe fn capacity(handle: *const Handle) -> usize {
    // SAFETY: the caller's promise.
    unsafe { open(handle) }.map_or(0, |heap| each!(heap, heap => heap.capacity()))
}

/// Shows every block to `visit` until it says otherwise. The heap is opened anew for every block, so `visit` may use it.
///
/// # Safety
/// As [`open`], after every call of `visit` too; `visit` may be called with `context`.
pub(crate) unsafe fn walk(handle: *const Handle, visit: Option<Visitor>, context: *mut c_void) -> Result<(), Status> {
    let visit = visit.ok_or(Status::NullPointer)?;
    let mut at = 0;
    // SAFETY: the caller's promise.
    while let Some((block, end)) = unsafe { block_at(handle, at) }? {
        at = end;
        // SAFETY: the caller's promise.
        if unsafe { visit(&block, context) } != 0 {
            break;
        }
    }
    Ok(())
}

/// The block that contains the byte at offset `at`, and where it ends; nothing at the heap's end.
unsafe fn block_at(handle: *const Handle, at: usize) -> Result<Option<(Block, usize)>, Status> {
    // SAFETY: the caller's promise.
    let heap = unsafe { open(handle) }?;
    let base = each!(&heap, heap => heap.base());
    let address = |offset: usize| base.map_addr(|base| base.saturating_add(offset));
    let found = each!(&heap, heap => heap.block_containing(address(at)));
    Ok(found.map(|block| {
        let used = c_int::from(block.state == BlockState::Used);
        let shown = Block { address: address(block.offset).as_ptr().cast(), size: block.size, used };
        (shown, block.offset + block.size)
    }))
}

/// Writes `value` to `out`.
///
/// # Safety
/// `out` is null or may be written.
pub(crate) unsafe fn tell<T>(out: *mut T, value: T) -> Result<(), Status> {
    if out.is_null() {
        return Err(Status::NullPointer);
    }
    // SAFETY: the caller's promise.
    unsafe { out.write(value) };
    Ok(())
}

/// # Safety
/// As [`open`]; `out` is null or may be written.
pub(crate) unsafe fn holes(handle: *const Handle, out: *mut Holes) -> Result<(), Status> {
    // SAFETY: the caller's promise.
    unsafe { tell(out, each!(open(handle)?, heap => heap.holes()).into()) }
}

/// # Safety
/// As [`open`]; `out` is null or may be written.
pub(crate) unsafe fn counters(handle: *const Handle, out: *mut Counters) -> Result<(), Status> {
    // SAFETY: the caller's promise.
    unsafe { tell(out, each!(open(handle)?, heap => heap.counters()).ok_or(Status::NoStatistics)?) }
}

/// # Safety
/// As [`open`]; `out` is null or may be written.
pub(crate) unsafe fn check(handle: *const Handle, out: *mut Violation) -> Result<(), Status> {
    // SAFETY: the caller's promise.
    let Err(violation) = each!(unsafe { open(handle) }?, heap => heap.check()) else { return Ok(()) };
    if !out.is_null() {
        // SAFETY: the caller's promise.
        unsafe { out.write(violation.into()) };
    }
    Err(Status::Damaged)
}
