//! The exported names of C and POSIX.
// In every function here, the program must keep the contract of the C library's manual.

use heapwright_os::export_reallocarray;
use heapwright_process as heap;

/// Allocates as in C; aligned to 16.
#[unsafe(no_mangle)]
pub extern "C" fn malloc(size: usize) -> *mut u8 {
    heap::allocate(size)
}

/// Allocates zeroed memory as in C.
#[unsafe(no_mangle)]
pub extern "C" fn calloc(count: usize, size: usize) -> *mut u8 {
    heap::allocate_zeroed(count, size)
}

/// Resizes as in C; frees if the size is 0.
///
/// # Safety
/// `block` is null or a live block; after success the program does not use its old address or the bytes above `size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(block: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: as C requires of `realloc`, the program uses neither the old block after success nor its bytes above
    // `size`.
    unsafe { heap::reallocate(block, size) }
}

/// Frees as in C.
///
/// # Safety
/// `block` is null or a live block that the program does not use any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: *mut u8) {
    // SAFETY: as C requires of `free`, the program does not use the block any more.
    unsafe { heap::free(block) }
}

/// The old name of `free`.
///
/// # Safety
/// `block` is null or a live block that the program does not use any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfree(block: *mut u8) {
    // SAFETY: as with `free`, the program does not use the block any more.
    unsafe { heap::free(block) }
}

/// Frees a block of known size as in C23.
///
/// # Safety
/// `block` is null or a live block of this size that the program does not use any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_sized(block: *mut u8, size: usize) {
    // SAFETY: as C23 requires of `free_sized`, the program does not use the block any more.
    unsafe { heap::free_sized(block, size) }
}

/// Frees an aligned block of known size as in C23.
///
/// # Safety
/// `block` is null or a live block of this size and alignment that the program does not use any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_aligned_sized(block: *mut u8, align: usize, size: usize) {
    // SAFETY: as C23 requires of `free_aligned_sized`, the program does not use the block any more.
    unsafe { heap::free_aligned_sized(block, align, size) }
}

/// Allocates aligned memory as in POSIX.
///
/// # Safety
/// `place` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(place: *mut *mut u8, align: usize, size: usize) -> i32 {
    // SAFETY: as POSIX requires of `posix_memalign`, `place` is valid for a write of a pointer.
    unsafe { heap::allocate_into(place, align, size) }
}

/// Allocates aligned memory as in C.
#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut u8 {
    heap::allocate_aligned_strictly(align, size)
}

/// Allocates aligned memory; rounds an alignment that is not a power of two up to the next one.
#[unsafe(no_mangle)]
pub extern "C" fn memalign(align: usize, size: usize) -> *mut u8 {
    heap::allocate_aligned_loosely(align, size)
}

/// Allocates at an OS page boundary.
#[unsafe(no_mangle)]
pub extern "C" fn valloc(size: usize) -> *mut u8 {
    heap::allocate_pages(size)
}

/// Allocates at an OS page boundary and rounds up to whole OS pages.
#[unsafe(no_mangle)]
pub extern "C" fn pvalloc(size: usize) -> *mut u8 {
    heap::allocate_whole_pages(size)
}

export_reallocarray!(heap::refuse);

/// Returns the number of bytes that the program may use in a block.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_usable_size(block: *mut u8) -> usize {
    heap::usable_size(block)
}
