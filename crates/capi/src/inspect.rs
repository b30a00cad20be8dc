//! Queries about a heap: its blocks, holes, counters and invariants.

use core::ffi::{c_char, c_int, c_void};
use core::ptr::NonNull;

use heapwright_heaps::BlockState;

use crate::handle::{Handle, Heap, each, with_heap};
use crate::out::store_if_wanted;
use crate::types::{Block, Status, Violation, Visitor};

/// The description of the status of this number.
pub(crate) fn text_of(number: c_int) -> *const c_char {
    let known = Status::ALL.iter().copied().find(|&status| status as c_int == number);
    known.map_or(c"no such status", Status::text).as_ptr()
}

/// The bytes that the block at this address has.
pub(crate) fn usable_size(heap: Heap<'_>, block: *const c_void) -> Result<usize, Status> {
    let block = NonNull::new(block.cast_mut().cast::<u8>()).ok_or(Status::NotABlock)?;
    each!(heap.kind, heap => heap.usable_size(block)).ok_or(Status::NotABlock)
}

/// Calls `visit` for every block until it returns another number than 0. The heap is not borrowed during the calls, so
/// that `visit` may allocate and free in it.
///
/// # Safety
/// For `handle` as for [`with_heap`], before and after every call of `visit`. `visit` may be called with `context`.
pub(crate) unsafe fn walk(handle: *const Handle, visit: Option<Visitor>, context: *mut c_void) -> Result<(), Status> {
    let visit = visit.ok_or(Status::NullPointer)?;
    let mut at = 0;
    // SAFETY: `handle` is as `with_heap` needs it, as this function requires, which holds again after every call of
    // `visit`.
    while let Some((block, end)) = unsafe { with_heap(handle, |heap| Ok(block_at(heap, at))) }? {
        at = end;
        // SAFETY: the visitor may be called with this context, as this function requires, and the block is a local
        // variable.
        if unsafe { visit(&block, context) } != 0 {
            break;
        }
    }
    Ok(())
}

/// The block that contains the byte at offset `at`, and the offset of its end; `None` at the heap's end.
fn block_at(heap: Heap<'_>, at: usize) -> Option<(Block, usize)> {
    let base = each!(&heap.kind, heap => heap.base());
    let address = |offset: usize| base.map_addr(|base| base.saturating_add(offset));
    let block = each!(&heap.kind, heap => heap.block_containing(address(at)))?;
    let used = c_int::from(block.state == BlockState::Used);
    let shown = Block { address: address(block.offset).as_ptr().cast(), size: block.size, used };
    Some((shown, block.offset + block.size))
}

/// Verifies every invariant of the heap; stores the first that does not hold at `out`, unless that is null.
///
/// # Errors
/// [`Status::Damaged`].
///
/// # Safety
/// `out` is null or valid for a write.
pub(crate) unsafe fn check(heap: Heap<'_>, out: *mut Violation) -> Result<(), Status> {
    let Err(violation) = each!(heap.kind, heap => heap.check()) else { return Ok(()) };
    // SAFETY: `out` is null or valid for a write, as this function requires.
    unsafe { store_if_wanted(out, violation.into()) };
    Err(Status::Damaged)
}
