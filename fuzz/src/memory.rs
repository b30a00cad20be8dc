//! A limit on memory: whoever asks for more than any input may cost has believed a number in the input.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The most bytes that may be allocated at one time. A trace with side streams may hold 128 MiB of sites and names if they are in
/// the file; no input of a few kilobytes has that many, and a frame's contents are at most 4 MiB.
const LIMIT: usize = 48 << 20;

/// The system's allocator, which ends the process when more is asked for.
pub struct Limited;

static HELD: AtomicUsize = AtomicUsize::new(0);

fn hold(bytes: usize) {
    if HELD.fetch_add(bytes, Relaxed) + bytes > LIMIT {
        HELD.store(0, Relaxed);
        panic!("more than {LIMIT} bytes are allocated");
    }
}

// SAFETY: all is done by the system's allocator, with what was passed in.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        hold(layout.size());
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        hold(layout.size());
        // SAFETY: as the caller promised.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        hold(size);
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.realloc(block, layout, size) }
    }
}
