//! A limit on memory. Code that exceeds it has trusted a number in the input.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The limit of allocated bytes. A reader may use 128 MiB for sites and names if the file contains them, but no input
/// of a few kilobytes does, and the contents of a frame are at most 4 MiB.
const LIMIT: usize = 48 << 20;

/// The system allocator with a limit. Panics if allocations exceed [`LIMIT`].
pub struct Limited;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

fn charge(bytes: usize) {
    if ALLOCATED.fetch_add(bytes, Relaxed) + bytes > LIMIT {
        ALLOCATED.store(0, Relaxed);
        panic!("allocations exceed the limit of {LIMIT} bytes");
    }
}

// SAFETY: every call is forwarded to the system allocator with unchanged arguments, and `charge` does not allocate
// unless it panics, which ends the fuzzing process.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        charge(layout.size());
        // SAFETY: the caller of `alloc` guarantees that `layout` has a non-zero size, as the system allocator requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller guarantees that `block` came from this allocator, hence from `System`, with `layout`.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        charge(layout.size());
        // SAFETY: the caller guarantees that `layout` has a non-zero size, as the system allocator requires.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        charge(size);
        ALLOCATED.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller guarantees that `block` came from this allocator, hence from `System`, with `layout`, and
        // that `size` is not zero and does not overflow when rounded up to the alignment.
        unsafe { System.realloc(block, layout, size) }
    }
}
