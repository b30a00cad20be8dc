//! The heap as a Rust global allocator.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::{NonNull, null_mut};

use crate::allocate::{allocate, allocate_aligned, allocate_zeroed, take};
use crate::free::{free, give, give_any};
use crate::harden;
use crate::resize::{reallocate, resize_in_place, retake};
use heapwright_slabs::classes::GRAIN;
use heapwright_slabs::errors::OutOfMemory;
use heapwright_slabs::mode;

/// The process's cached heap as a Rust global allocator. The first allocation initialises it.
///
/// ```
/// use heapwright_cached::Cached;
///
/// #[global_allocator]
/// static HEAP: Cached = Cached;
///
/// let words: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
/// assert_eq!(words.concat().len(), 2890);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Cached;

fn pointer(block: Result<NonNull<u8>, OutOfMemory>) -> *mut u8 {
    block.map_or(null_mut(), NonNull::as_ptr)
}

// SAFETY: blocks are as long and as aligned as asked, do not move by themselves, and do not overlap.
unsafe impl GlobalAlloc for Cached {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() > GRAIN {
            return pointer(allocate_aligned(layout.size(), layout.align()));
        }
        match take(layout.size()) {
            Some(block) => block.as_ptr(),
            None => pointer(allocate(layout.size())),
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= GRAIN {
            return pointer(allocate_zeroed(layout.size()));
        }
        // SAFETY: the caller's promise.
        let block = unsafe { self.alloc(layout) };
        if !block.is_null() {
            // SAFETY: the block is new and that long.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        // SAFETY: the block came from `alloc`, so it is not null; the caller gives it up.
        unsafe {
            if !give(block)
                && !give_any(block)
                && let Err(error) = free(NonNull::new_unchecked(block))
                && mode::is_hardened()
            {
                // `dealloc` cannot return the error; only the hardened heap aborts.
                harden::refuse(NonNull::new_unchecked(block), error)
            }
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the block came from `alloc` with this layout, so it is not null.
        unsafe {
            if layout.align() <= GRAIN {
                let moved = retake(block, size).map_or_else(|| reallocate(NonNull::new_unchecked(block), size), Ok);
                return moved.map_or(null_mut(), NonNull::as_ptr);
            }
            if resize_in_place(NonNull::new_unchecked(block), size).is_ok() {
                return block;
            }
            let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                new.copy_from_nonoverlapping(block, layout.size().min(size));
                self.dealloc(block, layout);
            }
            new
        }
    }
}
