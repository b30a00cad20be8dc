//! Allocation, resizing and free, by address and by offset.

use core::ffi::c_void;
use core::ptr::{NonNull, null_mut};

use heapwright_shared::{Error, Offset, SharedHeap};

use super::failure::Failure;
use crate::types::Status;

/// The block at an address; `None` for null, which is no block.
#[inline(always)]
fn block_behind(heap: &SharedHeap, address: *const c_void) -> Result<Option<Offset>, Failure> {
    let Some(address) = NonNull::new(address.cast_mut().cast::<u8>()) else { return Ok(None) };
    Ok(Some(heap.offset_of(address).ok_or(Status::NotABlock)?))
}

/// The offset of a block that must be there; 0 is no block.
fn required(offset: u64) -> Result<Offset, Status> {
    Offset::new(offset).ok_or(Status::NotABlock)
}

#[inline(always)]
fn address_of(heap: &SharedHeap, block: Offset) -> *mut c_void {
    heap.base().as_ptr().wrapping_add(block.get() as usize).cast()
}

/// Makes `block` hold `size` bytes, or allocates a block if there is none.
fn resize_or_allocate(heap: &SharedHeap, block: Option<Offset>, size: usize) -> Result<Offset, Failure> {
    Ok(match block {
        // SAFETY: as the header requires, no other thread uses the block meanwhile.
        Some(block) => unsafe { heap.resize(block, size)? },
        None => heap.allocate(size)?,
    })
}

#[inline(always)]
pub(crate) fn allocate(heap: &SharedHeap, size: usize, align: usize) -> Result<*mut c_void, Failure> {
    Ok(address_of(heap, heap.allocate_aligned(size, align)?))
}

#[inline(always)]
pub(crate) fn allocate_offset(heap: &SharedHeap, size: usize, align: usize) -> Result<u64, Failure> {
    Ok(heap.allocate_aligned(size, align)?.get())
}

pub(crate) fn resize(heap: &SharedHeap, block: *mut c_void, size: usize) -> Result<*mut c_void, Failure> {
    Ok(address_of(heap, resize_or_allocate(heap, block_behind(heap, block)?, size)?))
}

pub(crate) fn resize_offset(heap: &SharedHeap, block: u64, size: usize) -> Result<u64, Failure> {
    resize_or_allocate(heap, Offset::new(block), size).map(Offset::get)
}

pub(crate) fn resize_in_place(heap: &SharedHeap, block: u64, size: usize) -> Result<(), Failure> {
    Ok(heap.resize_in_place(required(block)?, size)?)
}

#[inline(always)]
pub(crate) fn free(heap: &SharedHeap, block: *mut c_void) -> Result<(), Failure> {
    let Some(block) = NonNull::new(block.cast::<u8>()) else { return Ok(()) };
    heap.deallocate_pointer(block).map_err(|refused| refused_free(heap, block, refused))
}

/// Why no block was freed at an address.
#[cold]
#[inline(never)]
fn refused_free(heap: &SharedHeap, address: NonNull<u8>, refused: Error) -> Failure {
    heap.offset_of(address).map_or_else(|| Status::NotABlock.into(), |_| refused.into())
}

#[inline(always)]
pub(crate) fn free_offset(heap: &SharedHeap, block: u64) -> Result<(), Failure> {
    match Offset::new(block) {
        Some(block) => Ok(heap.deallocate(block)?),
        None => Ok(()),
    }
}

pub(crate) fn usable_size(heap: &SharedHeap, block: *const c_void) -> Result<usize, Failure> {
    Ok(heap.usable_size(block_behind(heap, block)?.ok_or(Status::NotABlock)?)?)
}

pub(crate) fn usable_size_offset(heap: &SharedHeap, block: u64) -> Result<usize, Failure> {
    Ok(heap.usable_size(required(block)?)?)
}

/// The address of the byte at `offset`; null for 0.
pub(crate) fn pointer_of(heap: &SharedHeap, offset: u64) -> Result<*mut c_void, Failure> {
    let Some(offset) = Offset::new(offset) else { return Ok(null_mut()) };
    heap.offset_of(heap.pointer(offset)).ok_or(Status::NotABlock)?;
    Ok(address_of(heap, offset))
}

/// The offset of the byte at `pointer`; 0 for null.
pub(crate) fn offset_of(heap: &SharedHeap, pointer: *const c_void) -> Result<u64, Failure> {
    Ok(block_behind(heap, pointer)?.map_or(0, Offset::get))
}

pub(crate) fn adopt(heap: &SharedHeap, block: u64) -> Result<(), Failure> {
    Ok(heap.adopt(required(block)?)?)
}
