//! Allocation, resizing and free, by address and by offset.

use core::ffi::c_void;
use core::ptr::{NonNull, null_mut};

use heapwright_shared::{Offset, SharedHeap};

use super::answer::answer;
use super::failure::Failure;
use crate::handle::{Handle, open_shared};
use crate::types::Status;

/// The block at an offset; `None` for 0, which is no block.
fn block_at(offset: u64) -> Option<Offset> {
    Offset::new(offset)
}

/// The block at an address; `None` for null, which is no block.
fn block_behind(heap: &SharedHeap, address: *const c_void) -> Result<Option<Offset>, Failure> {
    let Some(address) = NonNull::new(address.cast_mut().cast::<u8>()) else { return Ok(None) };
    Ok(Some(heap.offset_of(address).ok_or(Status::NotABlock)?))
}

fn address_of(heap: &SharedHeap, block: Offset) -> *mut c_void {
    heap.pointer(block).as_ptr().cast()
}

/// Makes `block` hold `size` bytes, or a block if there is none.
fn resize_or_allocate(heap: &SharedHeap, block: Option<Offset>, size: usize) -> Result<Offset, Failure> {
    Ok(match block {
        Some(block) => heap.resize(block, size)?,
        None => heap.allocate(size)?,
    })
}

fn free_if_any(heap: &SharedHeap, block: Option<Offset>) -> Result<(), Failure> {
    Ok(block.map_or(Ok(()), |block| heap.deallocate(block))?)
}

/// # Safety
/// As [`open_shared`].
#[inline]
pub(crate) unsafe fn allocate(handle: *const Handle, size: usize, align: usize) -> Result<*mut c_void, Failure> {
    // SAFETY: the caller's promise.
    let heap = unsafe { open_shared(handle) }?;
    Ok(address_of(heap, heap.allocate_aligned(size, align)?))
}

/// # Safety
/// As [`answer`].
pub(crate) unsafe fn try_allocate(
    handle: *const Handle,
    size: usize,
    align: usize,
    block: *mut *mut c_void,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    unsafe { answer(handle, block, |heap| heap.allocate_aligned(size, align).map(|block| address_of(heap, block))) }
}

/// # Safety
/// As [`answer`].
pub(crate) unsafe fn allocate_offset(
    handle: *const Handle,
    size: usize,
    align: usize,
    block: *mut u64,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    unsafe { answer(handle, block, |heap| heap.allocate_aligned(size, align).map(Offset::get)) }
}

/// # Safety
/// As [`open_shared`]; if a used block starts at `block`, nobody uses what is cut off, nor the block where it was when it moved.
pub(crate) unsafe fn resize(handle: *const Handle, block: *mut c_void, size: usize) -> Result<*mut c_void, Failure> {
    // SAFETY: the caller's promise.
    let heap = unsafe { open_shared(handle) }?;
    Ok(address_of(heap, resize_or_allocate(heap, block_behind(heap, block)?, size)?))
}

/// # Safety
/// As [`resize`], for what `block` points at, which may be read and written unless it is null.
pub(crate) unsafe fn try_resize(handle: *const Handle, block: *mut *mut c_void, size: usize) -> Result<(), Failure> {
    // SAFETY: the caller's promise; the block is read when it is known not to be null.
    unsafe { answer(handle, block, |_| resize(handle, block.read(), size)) }
}

/// # Safety
/// As [`try_resize`].
pub(crate) unsafe fn resize_offset(handle: *const Handle, block: *mut u64, size: usize) -> Result<(), Failure> {
    // SAFETY: the caller's promise; the block is read when it is known not to be null.
    unsafe { answer(handle, block, |heap| resize_or_allocate(heap, block_at(block.read()), size).map(Offset::get)) }
}

/// # Safety
/// As [`open_shared`]; if a used block starts at `block`, nobody uses what is cut off.
pub(crate) unsafe fn resize_in_place(handle: *const Handle, block: u64, size: usize) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    let heap = unsafe { open_shared(handle) }?;
    Ok(heap.resize_in_place(block_at(block).ok_or(Status::NotABlock)?, size)?)
}

/// # Safety
/// As [`open_shared`]; if a used block starts at `block`, nobody uses it any more.
#[inline]
pub(crate) unsafe fn free(handle: *const Handle, block: *mut c_void) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    let heap = unsafe { open_shared(handle) }?;
    free_if_any(heap, block_behind(heap, block)?)
}

/// # Safety
/// As [`free`].
#[inline]
pub(crate) unsafe fn free_offset(handle: *const Handle, block: u64) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    free_if_any(unsafe { open_shared(handle) }?, block_at(block))
}

/// # Safety
/// As [`open_shared`].
pub(crate) unsafe fn usable_size(handle: *const Handle, block: *const c_void) -> Result<usize, Failure> {
    // SAFETY: the caller's promise.
    let heap = unsafe { open_shared(handle) }?;
    Ok(heap.usable_size(block_behind(heap, block)?.ok_or(Status::NotABlock)?)?)
}

/// # Safety
/// As [`open_shared`].
pub(crate) unsafe fn usable_size_offset(handle: *const Handle, block: u64) -> Result<usize, Failure> {
    // SAFETY: the caller's promise.
    let heap = unsafe { open_shared(handle) }?;
    Ok(heap.usable_size(block_at(block).ok_or(Status::NotABlock)?)?)
}

/// The address of what lies at `offset`; null for 0.
///
/// # Safety
/// As [`open_shared`].
pub(crate) unsafe fn pointer_of(handle: *const Handle, offset: u64) -> Result<*mut c_void, Failure> {
    // SAFETY: the caller's promise.
    let heap = unsafe { open_shared(handle) }?;
    let Some(offset) = block_at(offset) else { return Ok(null_mut()) };
    heap.offset_of(heap.pointer(offset)).ok_or(Status::NotABlock)?;
    Ok(address_of(heap, offset))
}

/// The offset of what lies at `pointer`; 0 for null.
///
/// # Safety
/// As [`open_shared`].
pub(crate) unsafe fn offset_of(handle: *const Handle, pointer: *const c_void) -> Result<u64, Failure> {
    // SAFETY: the caller's promise.
    let heap = unsafe { open_shared(handle) }?;
    Ok(block_behind(heap, pointer)?.map_or(0, Offset::get))
}

/// # Safety
/// As [`open_shared`].
pub(crate) unsafe fn grow(handle: *const Handle, bytes: usize) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    Ok(unsafe { open_shared(handle) }?.grow(bytes)?)
}

/// # Safety
/// As [`open_shared`].
pub(crate) unsafe fn adopt(handle: *const Handle, block: u64) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    let heap = unsafe { open_shared(handle) }?;
    Ok(heap.adopt(block_at(block).ok_or(Status::NotABlock)?)?)
}
