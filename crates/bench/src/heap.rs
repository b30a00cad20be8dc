//! The malloc of this process, called through pointers that are opaque to the compiler. Otherwise the compiler would
//! remove calls of malloc and free whose memory is unused.

use std::ffi::c_void;
use std::hint::black_box;
use std::process;
use std::ptr::{self, NonNull};

/// The stride in bytes for touching every OS page. On systems with larger pages, a page is touched several times.
pub const PAGE: usize = 4096;

/// The functions that the dynamic linker bound to malloc, realloc and free.
#[derive(Clone, Copy)]
pub struct Heap {
    malloc: unsafe extern "C" fn(usize) -> *mut c_void,
    realloc: unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
}

/// An owned block of at least one byte. It has to be freed through [`Heap::free`].
pub struct Block {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a `Block` has the only pointer to its memory, and any thread may use and free a block of malloc.
unsafe impl Send for Block {}

impl Heap {
    /// Returns the heap of this process.
    pub fn of_this_process() -> Heap {
        Heap { malloc: black_box(libc::malloc), realloc: black_box(libc::realloc), free: black_box(libc::free) }
    }

    /// Allocates `bytes` (at least 1) and writes the first and the last byte, as programs do. Exits the process if the
    /// request fails, because the workload then has no figures.
    pub fn allocate(self, bytes: usize) -> Block {
        let mut block = self.reserve(bytes);
        block.write(0, 1);
        block.write(bytes - 1, 1);
        block
    }

    /// Allocates `bytes` (at least 1) without writing to them. Exits the process if the request fails.
    pub fn reserve(self, bytes: usize) -> Block {
        // SAFETY: malloc is safe to call with any size.
        let start = unsafe { (self.malloc)(bytes) };
        Block { start: NonNull::new(start.cast()).unwrap_or_else(|| fail(bytes)), bytes }
    }

    /// Resizes a block to `bytes` (at least 1), possibly moving it. Exits the process if the request fails.
    pub fn resize(self, block: Block, bytes: usize) -> Block {
        // SAFETY: the block came from this heap, and `block` is taken by value: its pointer is not used after the call.
        let start = unsafe { (self.realloc)(block.start.as_ptr().cast(), bytes) };
        Block { start: NonNull::new(start.cast()).unwrap_or_else(|| fail(bytes)), bytes }
    }

    /// Frees a block.
    pub fn free(self, block: Block) {
        // SAFETY: the block came from this heap, and `block`, taken by value, has the only pointer to it.
        unsafe { (self.free)(block.start.as_ptr().cast()) }
    }
}

impl Block {
    /// Returns the address of the block.
    pub fn address(&self) -> usize {
        self.start.as_ptr().addr()
    }

    /// Returns the requested size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes the byte at `at`.
    ///
    /// # Panics
    /// If `at` is not below the size of the block.
    pub fn write(&mut self, at: usize, value: u8) {
        assert!(at < self.bytes, "the write is outside of the block");
        // SAFETY: `at` is inside the block, which `self` borrows exclusively.
        unsafe { ptr::write_volatile(self.start.as_ptr().add(at), value) }
    }

    /// Returns the byte at `at`, which the caller must have written before.
    ///
    /// # Panics
    /// If `at` is not below the size of the block.
    pub fn read(&self, at: usize) -> u8 {
        assert!(at < self.bytes, "the read is outside of the block");
        // SAFETY: `at` is inside the block, which is live. Every caller in this crate has written the byte; the
        // volatile read keeps the compiler from assuming anything about a byte that was not.
        unsafe { ptr::read_volatile(self.start.as_ptr().add(at)) }
    }

    /// Writes a byte to every page, starting at offset `from`.
    pub fn touch_pages(&mut self, from: usize) {
        (from..self.bytes).step_by(PAGE).for_each(|at| self.write(at, 1));
    }
}

fn fail(bytes: usize) -> ! {
    eprintln!("heapwright-bench: a request of {bytes} bytes failed");
    process::exit(1)
}
