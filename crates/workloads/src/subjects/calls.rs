//! Calls of the C library through function pointers that are opaque to the compiler. It would otherwise remove pairs of
//! malloc and free whose memory is unused.

use std::ffi::c_void;
use std::hint::black_box;
use std::ptr::NonNull;

use heapwright_host::memory::Pages;

use super::super::subject::Subject;

/// This process' malloc and free.
pub struct Malloc {
    malloc: unsafe extern "C" fn(usize) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
}

impl Malloc {
    /// Returns the functions that the dynamic linker has bound to these names.
    pub fn of_this_process() -> Malloc {
        Malloc { malloc: black_box(libc::malloc), free: black_box(libc::free) }
    }
}

impl Subject for Malloc {
    fn allocate(&mut self, bytes: usize) -> Option<usize> {
        // SAFETY: malloc accepts any size.
        let block = unsafe { (self.malloc)(bytes) };
        (!block.is_null()).then_some(block as usize)
    }

    fn free(&mut self, block: usize, _bytes: usize) {
        // SAFETY: malloc returned this block, and a workload frees each block once.
        unsafe { (self.free)(block as *mut c_void) }
    }
}

/// A mapping per block, without a table of sizes or checks.
pub struct Mmap;

impl Subject for Mmap {
    fn allocate(&mut self, bytes: usize) -> Option<usize> {
        Pages::map(bytes).ok().map(|pages| pages.leak().as_ptr() as usize)
    }

    fn free(&mut self, block: usize, bytes: usize) {
        let start = NonNull::new(block as *mut u8).expect("no page begins at address 0");
        // SAFETY: `allocate` leaked these pages for this block alone, and a workload frees each block once.
        drop(unsafe { Pages::adopt(start, bytes) });
    }
}
