//! The names of `sbmem.h`.

use core::ffi::{c_int, c_void};

use crate::sbmem;

#[unsafe(no_mangle)]
pub extern "C" fn sbmem_init(segment_size: c_int) -> c_int {
    sbmem::init(segment_size)
}

#[unsafe(no_mangle)]
pub extern "C" fn sbmem_remove() -> c_int {
    sbmem::remove()
}

#[unsafe(no_mangle)]
pub extern "C" fn sbmem_open() -> c_int {
    sbmem::open()
}

#[unsafe(no_mangle)]
pub extern "C" fn sbmem_alloc(size: c_int) -> *mut c_void {
    sbmem::allocate(size)
}

#[unsafe(no_mangle)]
pub extern "C" fn sbmem_free(block: *mut c_void) {
    sbmem::free(block);
}

#[unsafe(no_mangle)]
pub extern "C" fn sbmem_close() -> c_int {
    sbmem::close()
}
