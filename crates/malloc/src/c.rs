//! The names of C and POSIX.
// SAFETY: of every function here, the caller keeps to the C library's manual, which asks for what is asked for below.

use heapwright_process as heap;

/// As C says; aligned to 16.
#[unsafe(no_mangle)]
pub extern "C" fn malloc(size: usize) -> *mut u8 {
    heap::allocate(size)
}

/// As C says.
#[unsafe(no_mangle)]
pub extern "C" fn calloc(count: usize, size: usize) -> *mut u8 {
    heap::allocate_zeroed(count, size)
}

/// As C says; to 0 bytes it frees.
///
/// # Safety
/// As C says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(block: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: the caller's promise.
    unsafe { heap::reallocate(block, size) }
}

/// As C says.
///
/// # Safety
/// As C says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe { heap::free(block) }
}

/// The old name of `free`.
///
/// # Safety
/// As C says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfree(block: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe { heap::free(block) }
}

/// As C23 says.
///
/// # Safety
/// As C says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_sized(block: *mut u8, size: usize) {
    // SAFETY: the caller's promise.
    unsafe { heap::free_sized(block, size) }
}

/// As C23 says.
///
/// # Safety
/// As C says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_aligned_sized(block: *mut u8, _align: usize, size: usize) {
    // SAFETY: the caller's promise.
    unsafe { heap::free_sized(block, size) }
}

/// As POSIX says.
///
/// # Safety
/// `place` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(place: *mut *mut u8, align: usize, size: usize) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { heap::allocate_into(place, align, size) }
}

/// As C says.
#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut u8 {
    heap::allocate_aligned_strictly(align, size)
}

/// An alignment that is not a power of two is taken as the next one.
#[unsafe(no_mangle)]
pub extern "C" fn memalign(align: usize, size: usize) -> *mut u8 {
    heap::allocate_aligned_loosely(align, size)
}

/// At an OS page boundary.
#[unsafe(no_mangle)]
pub extern "C" fn valloc(size: usize) -> *mut u8 {
    heap::allocate_pages(size)
}

/// At an OS page boundary, rounded up to whole OS pages.
#[unsafe(no_mangle)]
pub extern "C" fn pvalloc(size: usize) -> *mut u8 {
    heap::allocate_whole_pages(size)
}

/// As POSIX says.
///
/// # Safety
/// As for `realloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(block: *mut u8, count: usize, size: usize) -> *mut u8 {
    // SAFETY: the caller's promise.
    unsafe { heap::reallocate_array(block, count, size) }
}

/// How many bytes a block has.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_usable_size(block: *mut u8) -> usize {
    heap::usable_size(block)
}
