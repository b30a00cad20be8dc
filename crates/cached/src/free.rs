//! Frees: the fast path to the thread cache, and the choice of the slow path.

use core::alloc::Layout;
use core::ptr::NonNull;

use heapwright_heaps::FreeError;

use crate::lifecycle::{adopted, heap_for_long_blocks, heap_to_allocate_in};
use crate::lookup::usable_size;
use crate::{counts, harden, long};
use heapwright_slabs::classes::size_of_class;
use heapwright_slabs::heap::send_unbuffered;
use heapwright_slabs::origin::Origin;
use heapwright_slabs::{mode, thread};

/// Frees a block of the calling thread's heap into the thread cache: the fast path of `free`. `false` means that
/// [`give_any`] or [`free`] has to be called.
///
/// # Safety
/// As [`free`].
#[inline(always)]
#[must_use]
pub unsafe fn give(block: *mut u8) -> bool {
    // SAFETY: the caller's promise.
    unsafe { thread::heap().give(block, 0) }
}

/// Does the same as [`give`] for a block that was requested with `size` bytes.
///
/// # Safety
/// As [`free`].
#[inline(always)]
#[must_use]
pub unsafe fn give_sized(block: *mut u8, size: usize) -> bool {
    // SAFETY: the caller's promise.
    unsafe { thread::heap().give(block, size) }
}

/// Does the same as [`give`] for the blocks of all slabs and all heaps.
///
/// # Safety
/// As [`free`].
#[inline]
#[must_use]
pub unsafe fn give_any(block: *mut u8) -> bool {
    // SAFETY: the caller's promise.
    unsafe { thread::heap().give_any(block) }
}

/// Does the same as [`give_any`] for the blocks of the hardened heap.
///
/// # Safety
/// As [`free`].
#[inline(always)]
#[must_use]
pub unsafe fn give_hardened(block: *mut u8) -> bool {
    harden::give(block)
}

/// Frees a block.
///
/// # Errors
/// [`FreeError`]; nothing has changed then. A pointer into a block, or to one that is free, is not always recognised.
///
/// # Safety
/// If `block` is a block, it is not used any more.
#[inline(never)]
pub unsafe fn free(block: NonNull<u8>) -> Result<(), FreeError> {
    if Origin::of(block).is_none() {
        // SAFETY: as this function requires.
        return unsafe { free_without_class(block) };
    }
    let heap = heap_to_allocate_in();
    if let Some(heap) = heap {
        heap.refresh_room();
    }
    // Only now: until the heap is adopted, other heaps may take its slabs.
    let origin = Origin::of(block).ok_or(FreeError::NotABlock)?;
    // SAFETY: the caller's promise.
    let is_freed = unsafe {
        match heap {
            Some(heap) if origin.entry.owner() == heap.owner() => heap.give_any(block.as_ptr()),
            Some(heap) => heap.send(block, &origin),
            None => {
                send_unbuffered(block, &origin);
                true
            }
        }
    };
    if !is_freed {
        return Err(FreeError::AlreadyFree);
    }
    if counts::are_kept() {
        counts::record_free(Some(origin.class), size_of_class(origin.class));
    }
    Ok(())
}

/// Frees a block of the hardened heap, or a long block.
///
/// # Safety
/// As [`free`].
#[inline(never)]
unsafe fn free_without_class(block: NonNull<u8>) -> Result<(), FreeError> {
    if mode::is_hardened() {
        return harden::free(block, adopted());
    }
    // SAFETY: as this function requires.
    unsafe { long::free(block, heap_for_long_blocks()) }
}

/// Frees a block that was allocated for `layout`, or had its size after a resize.
///
/// # Errors
/// As [`free`], and [`FreeError::WrongSize`] when the block is shorter, or, in the hardened heap, longer than those
/// that are allocated for `layout`.
///
/// # Safety
/// As [`free`].
pub unsafe fn free_sized(block: NonNull<u8>, layout: Layout) -> Result<(), FreeError> {
    let usable = usable_size(block).ok_or(FreeError::NotABlock)?;
    if usable < layout.size() || mode::is_hardened() && !harden::is_length_for(usable, layout) {
        return Err(FreeError::WrongSize);
    }
    // SAFETY: if it is a block, it is not used any more, as this function requires.
    unsafe { if give_any(block.as_ptr()) || give_hardened(block.as_ptr()) { Ok(()) } else { free(block) } }
}
