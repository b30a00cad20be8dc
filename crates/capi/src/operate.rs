//! Allocation, resizing and free.

use core::alloc::Layout;
use core::ffi::c_void;
use core::ptr::{NonNull, null_mut};

use heapwright_heaps::{Chosen, GrowingHeap, OutOfMemory, Requests, Zero};

use crate::handle::{Heap, Kind, each};
use crate::types::{RequestRules, Status};

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

/// Returns why a growing heap has no block for a request.
fn why_not(heap: &GrowingHeap<Chosen>, layout: Layout) -> Status {
    if heap.has_addresses_for(layout) { Status::OutOfMemory } else { Status::Full }
}

/// Sets how a heap reads requests from now on; null stands for the usual rules.
///
/// # Safety
/// `rules` is null or valid for a read.
pub(crate) unsafe fn set_requests(heap: Heap<'_>, rules: *const RequestRules) -> Result<(), Status> {
    // SAFETY: null or valid for a read, as this function requires.
    let RequestRules { align, least, zero } = unsafe { rules.as_ref() }.copied().unwrap_or_default();
    let zero = match zero {
        0 => Zero::Block,
        1 => Zero::Null,
        _ => return Err(Status::BadOptions),
    };
    let requests = Requests { align: if align == 0 { 1 } else { align }, least, zero };
    requests.validate().map_err(|_| Status::BadOptions)?;
    *heap.requests = requests;
    Ok(())
}

/// Sets how many bytes of pages in holes stay in memory.
pub(crate) fn set_kept(heap: Heap<'_>, bytes: usize) -> Result<(), Status> {
    match heap.kind {
        Kind::Fixed(_) => Err(Status::BadOptions),
        Kind::Growing(heap) => {
            heap.set_keep(bytes);
            Ok(())
        }
    }
}

/// Purges what lies in holes; returns how many bytes that were.
pub(crate) fn trim(heap: Heap<'_>) -> usize {
    match heap.kind {
        Kind::Fixed(_) => 0,
        Kind::Growing(heap) => heap.trim(),
    }
}

/// Allocates a block; null where the rules give a request of 0 bytes none.
pub(crate) fn allocate(heap: Heap<'_>, size: usize, align: usize) -> Result<*mut c_void, Status> {
    let layout = layout(size, align)?;
    let Some(bytes) = heap.requests.bytes(size) else { return Ok(null_mut()) };
    let layout = self::layout(bytes, heap.requests.align(layout.align()))?;
    let block = match heap.kind {
        Kind::Fixed(heap) => heap.allocate(layout)?.cast::<u8>(),
        Kind::Growing(heap) => heap.allocate(layout).map_err(|OutOfMemory| why_not(heap, layout))?,
    };
    Ok(block.as_ptr().cast())
}

/// Returns the bytes that count as requested for a block of `usable` bytes that was requested with `size`: as many as
/// the rules made of them, except for a block that is older than the rules.
fn counted(heap: &Heap<'_>, size: usize, usable: usize) -> usize {
    heap.requests.raised(size).min(usable).max(size)
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
    let usable = each!(&heap.kind, heap => heap.usable_size(block)).ok_or(Status::NotABlock)?;
    let old = match old {
        Size::Known(old) if old > usable => return Err(Status::WrongSize),
        Size::Known(old) => layout(counted(&heap, old, usable), 1)?,
        Size::Unknown => layout(usable, 1)?,
    };
    let new = layout(heap.requests.raised(size), heap.requests.align(1))?;
    // SAFETY: a used block starts there, at least as long as `old`; what is cut off or left behind is not used any
    // more, as this function requires.
    let block = unsafe {
        match heap.kind {
            Kind::Fixed(heap) => heap.reallocate(block, old, new)?.cast::<u8>(),
            Kind::Growing(heap) => heap.reallocate(block, old, new).map_err(|OutOfMemory| why_not(heap, new))?,
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
            Size::Unknown => each!(heap.kind, heap => heap.deallocate_unsized(block)),
            Size::Known(size) => {
                let usable = each!(&heap.kind, heap => heap.usable_size(block)).unwrap_or(0);
                let layout = layout(counted(&heap, size, usable), 1).map_err(|_| Status::WrongSize)?;
                each!(heap.kind, heap => heap.deallocate(block, layout))
            }
        }
    };
    Ok(freed?)
}
