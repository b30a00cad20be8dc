//! Resizing.

use core::ptr::NonNull;

use heapwright_heaps::ResizeError;

use crate::allocate::{allocate_to_grow, take, take_hardened};
use crate::free::{free, give_any, give_hardened};
use crate::lookup::{length_in_slab, usable_size};
use crate::{harden, long, upkeep};
use heapwright_slabs::classes::size_of_class;
use heapwright_slabs::errors::{NotMoved, OutOfMemory};
use heapwright_slabs::{mode, thread};

/// Resizes a block to hold `size` bytes where it is, if that is possible and wastes little.
///
/// # Errors
/// [`ResizeError`]; nothing has changed then.
///
/// # Safety
/// If `block` is a block, its bytes above `size` are not used any more.
pub unsafe fn resize_in_place(block: NonNull<u8>, size: usize) -> Result<(), ResizeError> {
    if let Some(usable) = length_in_slab(block) {
        return if stays(usable, size) { Ok(()) } else { Err(ResizeError::NoRoom) };
    }
    if mode::is_hardened() {
        return harden::resize_in_place(block, size);
    }
    // SAFETY: as this function requires.
    unsafe { long::resize_in_place(block, size) }
}

/// Does the same as [`reallocate`] for a block of the calling thread's heap and a size above 0: the fast path of
/// `realloc`. `None` means that [`reallocate`] has to be called.
///
/// # Safety
/// As [`reallocate`].
#[inline(always)]
#[must_use]
pub unsafe fn retake(block: *mut u8, size: usize) -> Option<NonNull<u8>> {
    let heap = thread::heap();
    let class = heap.class_of(block)?;
    let (old, usable) = (NonNull::new(block)?, size_of_class(class));
    if size == 0 {
        return None;
    }
    if stays(usable, size) {
        return Some(old);
    }
    let new = heap.take(size)?;
    // SAFETY: both blocks are used, thus apart, and at least that long; the old one, of that class, is given up.
    unsafe {
        new.copy_from_nonoverlapping(old, usable.min(size));
        if heap.give_of_class(block, class) {
            return Some(new);
        }
        // It was freed before; `reallocate` finds that too.
        let _ = heap.give(new.as_ptr(), 0);
    }
    None
}

/// Resizes a block to hold `size` bytes where it is, or moves its contents to another block.
///
/// # Errors
/// [`NotMoved`]; nothing has changed then.
///
/// # Safety
/// If `block` is a block, its bytes above `size` are not used any more. If another block is returned, `block` is freed.
pub unsafe fn reallocate(block: NonNull<u8>, size: usize) -> Result<NonNull<u8>, NotMoved> {
    let usable = match length_in_slab(block) {
        Some(usable) if stays(usable, size) => return Ok(block),
        Some(usable) => usable,
        // SAFETY: the caller's promise.
        None => match unsafe { resize_in_place(block, size) } {
            Ok(()) => return Ok(block),
            Err(ResizeError::NotABlock) => return Err(NotMoved::NotABlock),
            Err(ResizeError::NoRoom) if mode::is_hardened() => usable_size(block).ok_or(NotMoved::NotABlock)?,
            // SAFETY: the caller's promise.
            Err(ResizeError::NoRoom) => match unsafe { long::remap_apart(block, size) }? {
                Some((moved, longer)) => {
                    upkeep::count_long(thread::heap().owned(), longer);
                    return Ok(moved);
                }
                None => long::usable_size(block).ok_or(NotMoved::NotABlock)?,
            },
        },
    };
    let taken = take(size).or_else(|| take_hardened(size));
    let new = taken.map_or_else(|| allocate_to_grow(usable, size), Ok);
    let new = new.map_err(|OutOfMemory| NotMoved::OutOfMemory)?;
    // SAFETY: both blocks are used, thus apart, and at least that long; the old one is given up.
    unsafe {
        new.copy_from_nonoverlapping(block, usable.min(size));
        if !give_any(block.as_ptr()) && !give_hardened(block.as_ptr()) {
            free(block).map_err(|_| NotMoved::NotABlock)?;
        }
    }
    Ok(new)
}

/// Returns whether a block of a class, `usable` bytes long, stays when it is resized to `size` bytes: one of which a
/// quarter is not needed moves to a shorter one, unless it is short itself.
#[inline(always)]
fn stays(usable: usize, size: usize) -> bool {
    /// A cache line: a part of it is not worth a page of another class.
    const SHORT: usize = 64;
    size <= usable && (size > usable - usable / 4 || usable <= SHORT)
}
