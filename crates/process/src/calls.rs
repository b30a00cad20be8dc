//! The malloc family, without its names. Failures return null and set `errno`, as glibc's manual says.

use core::alloc::Layout;
use core::ptr::{NonNull, null_mut};

use heapwright_os::{page_size, set_errno};

use heapwright_cached as cached;

use crate::front;
use crate::heap::{ALIGN, NotResized, Resized};

const ENOMEM: i32 = 12;
const EINVAL: i32 = 22;

#[cold]
#[inline(never)]
fn fail(errno: i32) -> *mut u8 {
    set_errno(errno);
    null_mut()
}

#[inline(always)]
fn layout(size: usize, align: usize) -> Option<Layout> {
    Layout::from_size_align(size, align).ok()
}

/// `malloc`: a block of `size` bytes at a multiple of 16; a block of its own even for 0.
#[inline(always)]
pub fn allocate(size: usize) -> *mut u8 {
    match cached::take(size) {
        Some(block) => block.as_ptr(),
        None => allocate_otherwise(size),
    }
}

#[inline(never)]
fn allocate_otherwise(size: usize) -> *mut u8 {
    match cached::take_medium(size) {
        Some(block) => block.as_ptr(),
        None => allocate_aligned(ALIGN, size),
    }
}

/// `calloc`.
#[inline]
pub fn allocate_zeroed(count: usize, size: usize) -> *mut u8 {
    let wanted = count.checked_mul(size).and_then(|size| layout(size, ALIGN));
    match wanted.and_then(front::place_zeroed) {
        Some(block) => block.as_ptr(),
        None => fail(ENOMEM),
    }
}

/// The aligned allocation of C++: `align` is a power of two.
#[inline]
pub fn allocate_aligned(align: usize, size: usize) -> *mut u8 {
    match layout(size, align.max(ALIGN)).and_then(front::place) {
        Some(block) => block.as_ptr(),
        None => fail(ENOMEM),
    }
}

/// `memalign`: an alignment that is not a power of two is taken as the next one.
pub fn allocate_aligned_loosely(align: usize, size: usize) -> *mut u8 {
    match align.checked_next_power_of_two() {
        Some(align) => allocate_aligned(align, size),
        None => fail(EINVAL),
    }
}

/// `pvalloc`: at an OS page boundary, rounded up to whole OS pages.
pub fn allocate_whole_pages(size: usize) -> *mut u8 {
    match size.max(1).checked_next_multiple_of(page_size()) {
        Some(size) => allocate_aligned(page_size(), size),
        None => fail(ENOMEM),
    }
}

/// `valloc`: at an OS page boundary.
pub fn allocate_pages(size: usize) -> *mut u8 {
    allocate_aligned(page_size(), size)
}

/// `aligned_alloc`: an alignment that is not a power of two is an error.
pub fn allocate_aligned_strictly(align: usize, size: usize) -> *mut u8 {
    if align.is_power_of_two() { allocate_aligned(align, size) } else { fail(EINVAL) }
}

/// `posix_memalign`: returns the error and leaves `errno` alone, and `place` too unless it succeeds.
///
/// # Safety
/// `place` is valid for a write.
pub unsafe fn allocate_into(place: *mut *mut u8, align: usize, size: usize) -> i32 {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<usize>()) {
        return EINVAL;
    }
    match layout(size, align.max(ALIGN)).and_then(front::place) {
        Some(block) => {
            // SAFETY: the caller's promise.
            unsafe { place.write(block.as_ptr()) };
            0
        }
        None => ENOMEM,
    }
}

/// `free`.
///
/// # Safety
/// If a used block starts at `block`, nobody uses it any more.
#[inline(always)]
pub unsafe fn free(block: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        if !cached::give(block) {
            free_otherwise(block);
        }
    }
}

/// # Safety
/// As [`free`].
#[inline(never)]
unsafe fn free_otherwise(block: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        if cached::give_any(block) {
            return;
        }
        if let Some(block) = NonNull::new(block) {
            front::release(block);
        }
    }
}

/// `free_sized` and the sized `delete`s: the size is held against the block.
///
/// # Safety
/// As [`free`].
#[inline]
pub unsafe fn free_sized(block: *mut u8, size: usize) {
    // SAFETY: the caller's promise.
    if unsafe { cached::give_sized(block, size) } {
        return;
    }
    let Some(block) = NonNull::new(block) else { return };
    let layout = layout(size, 1).unwrap_or(Layout::new::<u8>());
    // SAFETY: the caller's promise.
    unsafe { front::release_sized(block, layout) };
}

/// `realloc`: of null it allocates, to 0 it frees and returns null.
///
/// # Safety
/// If a used block starts at `block`, nobody uses what it has above `size` bytes any more and, when the result is not
/// null, nobody uses it by its old address.
pub unsafe fn reallocate(block: *mut u8, size: usize) -> *mut u8 {
    let Some(old) = NonNull::new(block) else { return allocate(size) };
    if size == 0 {
        // SAFETY: the caller's promise.
        unsafe { free(block) };
        return null_mut();
    }
    let Some(layout) = layout(size, ALIGN) else { return fail(ENOMEM) };
    // SAFETY: the caller's promise.
    match unsafe { front::resize(old, layout) } {
        Ok(Resized::Done(block)) => block.as_ptr(),
        Ok(Resized::Elsewhere(new, length)) => {
            // SAFETY: both blocks are used, thus apart, and at least that long; the old one is given up.
            unsafe {
                new.copy_from_nonoverlapping(old, length);
                free(block);
            }
            new.as_ptr()
        }
        Err(NotResized::NotABlock) => fail(EINVAL),
        Err(NotResized::OutOfMemory) => fail(ENOMEM),
    }
}

/// `reallocarray`.
///
/// # Safety
/// As [`reallocate`].
pub unsafe fn reallocate_array(block: *mut u8, count: usize, size: usize) -> *mut u8 {
    match count.checked_mul(size) {
        // SAFETY: the caller's promise.
        Some(size) => unsafe { reallocate(block, size) },
        None => fail(ENOMEM),
    }
}

/// `malloc_usable_size`: 0 for null and for what is not a block.
pub fn usable_size(block: *mut u8) -> usize {
    NonNull::new(block).and_then(front::usable_size).unwrap_or(0)
}
