//! Allocation, resizing and free.

use core::alloc::Layout;
use core::ffi::c_void;
use core::ptr::{NonNull, null_mut};

use heapwright_heaps::OutOfMemory;

use crate::handle::{Heap, each};
use crate::types::Status;

/// The largest alignment that heaps grant.
const MAX_ALIGN: usize = 1 << 30;

/// The layout of a block. A block of size 0 becomes one of 1 byte, so that it has an address of its own.
fn layout(size: usize, align: usize) -> Result<Layout, Status> {
    if !align.is_power_of_two() || align > MAX_ALIGN {
        return Err(Status::BadAlignment);
    }
    Layout::from_size_align(size.max(1), align).map_err(|_| Status::Full)
}

/// The block's address, or null on failure.
pub(crate) fn pointer(result: Result<*mut c_void, Status>) -> *mut c_void {
    result.unwrap_or(null_mut())
}

fn full(OutOfMemory: OutOfMemory) -> Status {
    Status::Full
}

pub(crate) fn allocate(heap: Heap<'_>, size: usize, align: usize) -> Result<*mut c_void, Status> {
    let layout = layout(size, align)?;
    let block = match heap {
        Heap::Fixed(heap) => heap.allocate(layout)?.cast::<u8>(),
        Heap::Growing(heap) => heap.allocate(layout).map_err(full)?,
    };
    Ok(block.as_ptr().cast())
}

/// The size that was requested for a block.
pub(crate) enum Size {
    Known(usize),
    /// The whole block counts as requested.
    Unknown,
}

/// Resizes a block, where it is or by moving it; null is no block, and one is allocated.
///
/// # Safety
/// If a used block starts at `block`, its bytes from `size` on are not used any more. When the block has moved, its old
/// address is not used any more.
pub(crate) unsafe fn resize(heap: Heap<'_>, block: *mut c_void, old: Size, size: usize) -> Result<*mut c_void, Status> {
    let Some(block) = NonNull::new(block.cast::<u8>()) else { return allocate(heap, size, 1) };
    let usable = each!(&heap, heap => heap.usable_size(block)).ok_or(Status::NotABlock)?;
    let old = match old {
        Size::Known(old) if old > usable => return Err(Status::WrongSize),
        Size::Known(old) => layout(old, 1)?,
        Size::Unknown => layout(usable, 1)?,
    };
    let new = layout(size, 1)?;
    // SAFETY: a used block starts there, at least as long as `old`; what is cut off or left behind is not used any
    // more, as this function requires.
    let block = unsafe {
        match heap {
            Heap::Fixed(heap) => heap.grow(block, old, new)?.cast::<u8>(),
            Heap::Growing(heap) => heap.grow(block, old, new).map_err(full)?,
        }
    };
    Ok(block.as_ptr().cast())
}

/// Frees a block; null is no block, and nothing happens.
///
/// # Safety
/// If a used block starts at `block`, it is not used any more.
pub(crate) unsafe fn free(heap: Heap<'_>, block: *mut c_void, size: Size) -> Result<(), Status> {
    let Some(block) = NonNull::new(block.cast::<u8>()) else { return Ok(()) };
    // SAFETY: a used block that starts there is not used any more, as this function requires; heaps refuse other
    // addresses.
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
