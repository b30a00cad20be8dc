//! The C library's calls, made through pointers that the compiler cannot see through: it knows what malloc and free
//! do, and would leave out the pairs whose memory nobody uses.

use std::ffi::c_void;
use std::hint::black_box;
use std::ptr;

use super::super::subject::Subject;

/// This process' malloc and free.
pub struct Malloc {
    malloc: unsafe extern "C" fn(usize) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
}

impl Malloc {
    /// Whatever the dynamic linker bound to these names.
    pub fn of_this_process() -> Malloc {
        Malloc { malloc: black_box(libc::malloc), free: black_box(libc::free) }
    }
}

impl Subject for Malloc {
    fn allocate(&mut self, bytes: usize) -> Option<usize> {
        // SAFETY: malloc takes any size.
        let block = unsafe { (self.malloc)(bytes) };
        (!block.is_null()).then_some(block as usize)
    }

    fn free(&mut self, block: usize, _bytes: usize) {
        // SAFETY: the block came from malloc and is freed once.
        unsafe { (self.free)(block as *mut c_void) }
    }
}

/// A mapping of its own for every block, and nothing else: no table of sizes, no check.
pub struct Mmap;

impl Subject for Mmap {
    fn allocate(&mut self, bytes: usize) -> Option<usize> {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping where the system likes harms nothing that exists.
        let block = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) };
        (block != libc::MAP_FAILED).then_some(block as usize)
    }

    fn free(&mut self, block: usize, bytes: usize) {
        // SAFETY: the mapping was made for this block alone.
        let outcome = unsafe { libc::munmap(block as *mut c_void, bytes) };
        assert_eq!(outcome, 0, "a workload frees what it allocated, once");
    }
}
