//! The malloc family, without its exported names. A failure returns null and sets `errno`, as in glibc's manual.

use core::alloc::Layout;
use core::ptr::{NonNull, null_mut};

use heapwright_os::{page_size, set_errno};

use heapwright_cached as cached;

use crate::exact::{NotResized, Resized};
use crate::front;
use crate::heap::ALIGN;

const ENOMEM: i32 = 12;
const EINVAL: i32 = 22;

#[cold]
#[inline(never)]
fn fail(errno: i32) -> *mut u8 {
    set_errno(errno);
    null_mut()
}

/// Nothing, where there is no memory for a block of `size` bytes; or where the rules give none to a request of nothing,
/// which is no failure.
#[cold]
#[inline(never)]
fn refused(size: usize) -> *mut u8 {
    if size == 0 && front::denies_zero() { null_mut() } else { fail(ENOMEM) }
}

/// The alignment of a request that names none: the heap's own.
pub const ANY: usize = 1;

#[inline(always)]
fn layout(size: usize, align: usize) -> Option<Layout> {
    Layout::from_size_align(size, align).ok()
}

/// `malloc`: allocates `size` bytes aligned to 16. A size of 0 also gets its own block. Rules may say otherwise.
#[inline(always)]
pub fn allocate(size: usize) -> *mut u8 {
    match take(size) {
        Some(block) => block.as_ptr(),
        None => allocate_otherwise(size),
    }
}

/// Allocates as [`allocate`] from the thread cache of the size class; `None` when that is empty, or the size has none.
#[inline(always)]
#[must_use]
pub fn take(size: usize) -> Option<NonNull<u8>> {
    cached::take(size)
}

#[inline(never)]
fn allocate_otherwise(size: usize) -> *mut u8 {
    match cached::take_hardened(size) {
        Some(block) => block.as_ptr(),
        None => allocate_aligned(ANY, size),
    }
}

/// `calloc`: allocates `count` items of `size` bytes, all zero, as are the other bytes that [`usable_size`] grants.
#[inline]
pub fn allocate_zeroed(count: usize, size: usize) -> *mut u8 {
    match count.checked_mul(size) {
        Some(size) => match cached::take_zeroed(size) {
            Some(block) => block.as_ptr(),
            None => allocate_zeroed_otherwise(size),
        },
        None => fail(ENOMEM),
    }
}

#[inline(never)]
fn allocate_zeroed_otherwise(size: usize) -> *mut u8 {
    match layout(size, ANY).and_then(front::place_zeroed) {
        Some(block) => block.as_ptr(),
        None => refused(size),
    }
}

/// The aligned allocation of C++: `align` is a power of two.
#[inline]
pub fn allocate_aligned(align: usize, size: usize) -> *mut u8 {
    match layout(size, align).and_then(front::place) {
        Some(block) => block.as_ptr(),
        None => refused(size),
    }
}

/// `memalign`: rounds an alignment that is not a power of two up to the next one.
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

/// `posix_memalign`: returns the error, and leaves `place` alone unless it succeeds.
///
/// Too little memory also sets `errno`, as under glibc: POSIX leaves it open, and programs written for glibc read it.
///
/// # Safety
/// `place` is valid for a write of a pointer.
pub unsafe fn allocate_into(place: *mut *mut u8, align: usize, size: usize) -> i32 {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<usize>()) {
        return EINVAL;
    }
    match layout(size, align).and_then(front::place) {
        Some(block) => {
            // SAFETY: `place` is valid for a write of a pointer, as this function requires.
            unsafe { place.write(block.as_ptr()) };
            0
        }
        None if size == 0 && front::denies_zero() => {
            // SAFETY: `place` is valid for a write of a pointer, as this function requires.
            unsafe { place.write(null_mut()) };
            0
        }
        None => {
            fail(ENOMEM);
            ENOMEM
        }
    }
}

/// `free`.
///
/// # Safety
/// If a live block starts at `block`, the program does not use it any more.
#[inline(always)]
pub unsafe fn free(block: *mut u8) {
    // SAFETY: if a live block starts at this address, the program does not use it any more, as this function requires.
    unsafe {
        if !cached::give(block) {
            free_otherwise(block);
        }
    }
}

/// # Safety
/// If a live block starts at `block`, the program does not use it any more.
#[inline(never)]
unsafe fn free_otherwise(block: *mut u8) {
    // SAFETY: if a live block starts at this address, the program does not use it any more, as this function requires.
    unsafe {
        if cached::give_any(block) || cached::give_hardened(block) {
            return;
        }
        if let Some(block) = NonNull::new(block) {
            front::release(block);
        }
    }
}

/// `free_sized`: checks the size against the block.
///
/// # Safety
/// If a live block starts at `block`, the program does not use it any more.
#[inline]
pub unsafe fn free_sized(block: *mut u8, size: usize) {
    // SAFETY: if a live block starts at this address, the program does not use it any more, as this function requires.
    unsafe {
        if !give_sized(block, size) {
            free_sized_otherwise(block, ALIGN, size);
        }
    }
}

/// `free_aligned_sized`: checks the size against the block.
///
/// # Safety
/// If a live block starts at `block`, the program does not use it any more.
#[inline]
pub unsafe fn free_aligned_sized(block: *mut u8, align: usize, size: usize) {
    // SAFETY: if a live block starts at this address, the program does not use it any more, as this function requires.
    unsafe {
        if !give_sized(block, size) {
            free_sized_otherwise(block, align, size);
        }
    }
}

/// Frees into the thread cache; returns `false`, and does nothing, for a block that has none or is shorter than `size`.
///
/// # Safety
/// If a live block starts at `block`, the program does not use it any more.
#[inline(always)]
#[must_use]
pub unsafe fn give_sized(block: *mut u8, size: usize) -> bool {
    // SAFETY: if a live block starts at this address, the program does not use it any more, as this function requires.
    unsafe { cached::give_sized(block, size) }
}

/// Frees as [`free_aligned_sized`], after [`give_sized`] returned `false`. `align` is the alignment that the block was
/// allocated with.
///
/// # Safety
/// If a live block starts at `block`, the program does not use it any more.
#[inline(never)]
pub unsafe fn free_sized_otherwise(block: *mut u8, align: usize, size: usize) {
    let Some(block) = NonNull::new(block) else { return };
    match layout(size, align.max(ALIGN)) {
        // SAFETY: if a live block starts at this address, the program does not use it any more, as this function
        // requires.
        Some(layout) => unsafe { front::release_sized(block, layout) },
        None => front::refuse_size(block, size),
    }
}

/// `realloc`: allocates if `block` is null; frees and returns null if `size` is 0.
///
/// # Safety
/// If a live block starts at `block`, the program does not use its bytes above `size` any more. If the result is not
/// null, the program does not use the block by its old address.
#[inline(always)]
pub unsafe fn reallocate(block: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: as this function requires.
    match unsafe { cached::retake(block, size) } {
        Some(block) => block.as_ptr(),
        // SAFETY: as above.
        None => unsafe { reallocate_otherwise(block, size) },
    }
}

/// # Safety
/// As [`reallocate`].
#[inline(never)]
unsafe fn reallocate_otherwise(block: *mut u8, size: usize) -> *mut u8 {
    let Some(old) = NonNull::new(block) else { return allocate(size) };
    if size == 0 {
        // SAFETY: `size` is 0, and the program does not use bytes of the block above `size`: it does not use the block
        // at all.
        unsafe { free(block) };
        return null_mut();
    }
    let Some(layout) = layout(size, ANY) else { return fail(ENOMEM) };
    // SAFETY: if a live block starts at this address, the program does not use its bytes above `size`, as this function
    // requires.
    match unsafe { front::resize(old, layout) } {
        Ok(Resized::Done(block)) => block.as_ptr(),
        Ok(Resized::Elsewhere(new, length)) => {
            // SAFETY: both blocks are live, so that they do not overlap, and both are at least this long; the program
            // does not use the old one after this call.
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

/// Returns null, with `ENOMEM`: the answer to a request that is too long to be made.
pub extern "C" fn refuse() -> *mut u8 {
    fail(ENOMEM)
}

/// `reallocarray`.
///
/// # Safety
/// As for [`reallocate`] with `count * size` bytes: the program uses neither the bytes above that size nor, when the
/// result is not null, the old address.
pub unsafe fn reallocate_array(block: *mut u8, count: usize, size: usize) -> *mut u8 {
    match count.checked_mul(size) {
        // SAFETY: the program uses neither the block's bytes above `size` nor, after success, its old address, as this
        // function requires.
        Some(size) => unsafe { reallocate(block, size) },
        None => fail(ENOMEM),
    }
}

/// `malloc_usable_size`: returns 0 for null and for an address that is not a live block.
pub fn usable_size(block: *mut u8) -> usize {
    NonNull::new(block).and_then(front::usable_size).unwrap_or(0)
}
