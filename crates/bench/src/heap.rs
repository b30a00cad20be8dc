//! The process' malloc, called through pointers that the compiler cannot see through: it knows what malloc and free do, and would
//! leave out the calls whose memory nobody uses.

use std::ffi::c_void;
use std::hint::black_box;
use std::process;
use std::ptr::{self, NonNull};

/// Bytes per OS page, as far as touching memory goes: where pages are larger, some are touched twice.
pub const PAGE: usize = 4096;

/// Whatever the dynamic linker bound to the names.
#[derive(Clone, Copy)]
pub struct Heap {
    malloc: unsafe extern "C" fn(usize) -> *mut c_void,
    realloc: unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
}

/// A block of at least one byte, freed once by whoever has it.
pub struct Block {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a block is memory that nobody else refers to, and malloc's blocks may be used and freed by any thread.
unsafe impl Send for Block {}

impl Heap {
    /// This process' heap.
    pub fn of_this_process() -> Heap {
        Heap { malloc: black_box(libc::malloc), realloc: black_box(libc::realloc), free: black_box(libc::free) }
    }

    /// A block of `bytes` (at least 1), its first and its last byte written as programs do. A refusal ends the process: a workload that
    /// cannot go on has no figures.
    pub fn allocate(self, bytes: usize) -> Block {
        let mut block = self.reserve(bytes);
        block.write(0, 1);
        block.write(bytes - 1, 1);
        block
    }

    /// As [`Heap::allocate`], but nothing is written to it.
    pub fn reserve(self, bytes: usize) -> Block {
        // SAFETY: malloc takes any size.
        let start = unsafe { (self.malloc)(bytes) };
        Block { start: NonNull::new(start.cast()).unwrap_or_else(|| refused(bytes)), bytes }
    }

    /// The block with `bytes` bytes (at least 1), wherever it lies now.
    pub fn resize(self, block: Block, bytes: usize) -> Block {
        // SAFETY: the block came from this heap and is not used any more.
        let start = unsafe { (self.realloc)(block.start.as_ptr().cast(), bytes) };
        Block { start: NonNull::new(start.cast()).unwrap_or_else(|| refused(bytes)), bytes }
    }

    /// Gives the block back.
    pub fn free(self, block: Block) {
        // SAFETY: the block came from this heap, and with it goes the only way to it.
        unsafe { (self.free)(block.start.as_ptr().cast()) }
    }
}

impl Block {
    /// Where it lies.
    pub fn address(&self) -> usize {
        self.start.as_ptr().addr()
    }

    /// How long it was asked to be.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes the byte at `at`, which is below its length.
    pub fn write(&mut self, at: usize, value: u8) {
        assert!(at < self.bytes, "a workload writes into its blocks only");
        // SAFETY: within the block, which is ours.
        unsafe { ptr::write_volatile(self.start.as_ptr().add(at), value) }
    }

    /// What was written at `at`, where something was.
    pub fn read(&self, at: usize) -> u8 {
        assert!(at < self.bytes, "a workload reads from its blocks only");
        // SAFETY: within the block; that something was written there is the caller's business, any byte is a u8 to the machine.
        unsafe { ptr::read_volatile(self.start.as_ptr().add(at)) }
    }

    /// Writes a byte to every page from `from` on.
    pub fn touch_pages(&mut self, from: usize) {
        (from..self.bytes).step_by(PAGE).for_each(|at| self.write(at, 1));
    }
}

fn refused(bytes: usize) -> ! {
    eprintln!("heapwright-bench: a request of {bytes} bytes was refused");
    process::exit(1)
}
