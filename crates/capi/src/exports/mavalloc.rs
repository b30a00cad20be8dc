//! The names of `mavalloc.h`.

use core::ffi::{c_int, c_void};

use crate::mavalloc;

#[unsafe(no_mangle)]
pub extern "C" fn mavalloc_init(size: usize, algorithm: c_int) -> c_int {
    mavalloc::init(size, algorithm)
}

#[unsafe(no_mangle)]
pub extern "C" fn mavalloc_destroy() {
    mavalloc::destroy();
}

#[unsafe(no_mangle)]
pub extern "C" fn mavalloc_alloc(size: usize) -> *mut c_void {
    mavalloc::allocate(size)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn mavalloc_free(block: *mut c_void) {
    // SAFETY: a block that is freed is not used any more: the header requires it of callers.
    unsafe { mavalloc::free(block) }
}

#[unsafe(no_mangle)]
pub extern "C" fn mavalloc_size() -> c_int {
    mavalloc::size()
}
