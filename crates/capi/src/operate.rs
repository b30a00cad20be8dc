//! Allocation, resizing and free.

use core::alloc::Layout;
use core::ffi::c_void;
use core::ptr::{NonNull, null_mut};

use heapwright_heaps::OutOfMemory;

use crate::handle::{Handle, Heap, each, open};
use crate::types::Status;

/// The largest alignment that heaps grant.
const MAX_ALIGN: usize = 1 << 30;

/// The layout of a block; C's blocks of size 0 are blocks of one byte, so that they can be told apart.
fn layout(size: usize, align: usize) -> Result<Layout, Status> {
    if !align.is_power_of_two() || align > MAX_ALIGN {
        return Err(Status::BadAlignment);
    }
    Layout::from_size_align(size.max(1), align).map_err(|_| Status::Full)
}

/// The block's address, or null.
pub(crate) fn pointer(result: Result<NonNull<u8>, Status>) -> *mut c_void {
    result.map_or(null_mut(), |block| block.as_ptr().cast())
}

/// The block's address in `out`, which is left alone on failure.
///
/// # Safety
/// `out` is null or may be written.
pub(crate) unsafe fn store(out: *mut *mut c_void, work: impl FnOnce() -> Result<NonNull<u8>, Status>) -> Status {
    if out.is_null() {
        return Status::NullPointer;
    }
    match work() {
        Ok(block) => {
            // SAFETY: the caller's promise.
            unsafe { out.write(block.as_ptr().cast()) };
            Status::Ok
        }
        Err(status) => status,
    }
}

/// # Safety
/// As [`open`].
pub(crate) unsafe fn allocate(handle: *mut Handle, size: usize, align: usize) -> Result<NonNull<u8>, Status> {
    let layout = layout(size, align)?;
    // SAFETY: the caller's promise.
    match unsafe { open(handle) }? {
        Heap::Fixed(heap) => Ok(heap.allocate(layout)?.cast()),
        Heap::Growing(heap) => heap.allocate(layout).map_err(|OutOfMemory| Status::Full),
    }
}

/// The size that a block is known to have been asked for with.
pub(crate) enum Size {
    Known(usize),
    /// It is taken to be all of the block.
    Unknown,
}

/// # Safety
/// As [`open`]; if a used block starts at `block`, nobody uses what is cut off, nor the block where it was when it moved.
pub(crate) unsafe fn resize(
    handle: *mut Handle,
    block: *mut c_void,
    old: Size,
    size: usize,
) -> Result<NonNull<u8>, Status> {
    let Some(block) = NonNull::new(block.cast::<u8>()) else {
        // SAFETY: the caller's promise.
        return unsafe { allocate(handle, size, 1) };
    };
    // SAFETY: the caller's promise.
    let heap = unsafe { open(handle) }?;
    let usable = each!(&heap, heap => heap.usable_size(block)).ok_or(Status::NotABlock)?;
    let old = match old {
        Size::Known(old) if old > usable => return Err(Status::WrongSize),
        Size::Known(old) => layout(old, 1)?,
        Size::Unknown => layout(usable, 1)?,
    };
    let new = layout(size, 1)?;
    // SAFETY: the block is used and at least as long as `old`; the caller's promise.
    unsafe {
        match heap {
            Heap::Fixed(heap) => Ok(heap.grow(block, old, new)?.cast()),
            Heap::Growing(heap) => heap.grow(block, old, new).map_err(|OutOfMemory| Status::Full),
        }
    }
}

/// Frees a block; null is no block, and freeing it does nothing.
///
/// # Safety
/// As [`open`]; if a used block starts at `block`, nobody uses it any more.
pub(crate) unsafe fn free(handle: *mut Handle, block: *mut c_void, size: Size) -> Result<(), Status> {
    // SAFETY: the caller's promise.
    let heap = unsafe { open(handle) }?;
    let Some(block) = NonNull::new(block.cast::<u8>()) else { return Ok(()) };
    // SAFETY: the caller's promise.
    let freed = unsafe {
        match size {
            Size::Unknown => each!(heap, heap => heap.deallocate_unsized(block)),
            Size::Known(size) => {
                let layout = layout(size, 1).map_err(|_| Status::WrongSize)?;
                each!(heap, heap => heap.deallocate(block, layout))
            }
        }
    };
    Ok(freed?)
}
