//! The global allocator of this project's programs: malloc, or memory beside it. A program that malloc refuses memory
//! ends in good order.

use std::alloc::{GlobalAlloc, Layout, System};

use crate::out_of_memory;
use crate::own_memory::OwnMemory;

/// A program's global allocator: malloc, or the program's [`OwnMemory`] while blocks are taken from that. When its area
/// is used up, malloc goes on. Memory that malloc refuses ends the process, as [`out_of_memory`] describes.
pub struct ProgramAllocator(&'static OwnMemory);

impl ProgramAllocator {
    /// Returns the allocator that takes blocks from `own` between its beginning and its end.
    #[must_use]
    pub const fn beside(own: &'static OwnMemory) -> ProgramAllocator {
        ProgramAllocator(own)
    }

    /// Returns `block`, of `size` bytes, which malloc may have refused.
    fn had(&self, block: *mut u8, size: usize) -> *mut u8 {
        if block.is_null() {
            out_of_memory::end(size, self.0);
        }
        block
    }
}

// SAFETY: a block of the area is aligned as asked for, as long, and taken once, since what is taken only grows; others
// are the system allocator's, and go back to it.
unsafe impl GlobalAlloc for ProgramAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        self.0.take(layout).unwrap_or_else(|| self.had(unsafe { System.alloc(layout) }, layout.size()))
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // The area is zero, and nothing of it is used twice.
        // SAFETY: the caller's promise.
        self.0.take(layout).unwrap_or_else(|| self.had(unsafe { System.alloc_zeroed(layout) }, layout.size()))
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if !self.0.has(block) {
            // SAFETY: the block is the system allocator's; the rest is the caller's promise.
            unsafe { System.dealloc(block, layout) }
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !self.0.has(block) {
            // SAFETY: the block is the system allocator's; the rest is the caller's promise.
            return self.had(unsafe { System.realloc(block, layout, size) }, size);
        }
        // SAFETY: the caller promises a valid size, and both blocks are that long and apart.
        unsafe {
            let resized = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !resized.is_null() {
                resized.copy_from_nonoverlapping(block, layout.size().min(size));
            }
            resized
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::own_memory::LENGTH;

    fn of(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).unwrap()
    }

    #[test]
    fn blocks_are_the_areas_own_between_begin_and_end() {
        static OWN: OwnMemory = OwnMemory::new();
        let (own, allocator) = (&OWN, ProgramAllocator::beside(&OWN));
        // SAFETY: each block is used within its length and goes back with its layout.
        unsafe {
            let before = allocator.alloc(of(100, 8));
            own.begin();
            let blocks = [(1, 1), (100, 64), (8, 8), (0x2000, 4096)]
                .map(|(size, align)| (allocator.alloc(of(size, align)), align));
            let resized = allocator.realloc(before, of(100, 8), 200);
            own.end();
            let after = allocator.alloc_zeroed(of(100, 8));
            assert!(blocks.iter().all(|&(block, align)| own.has(block) && block.addr().is_multiple_of(align)));
            assert!(blocks.windows(2).all(|pair| pair[0].0 < pair[1].0));
            assert!(!own.has(resized) && !own.has(after));
            blocks[0].0.write(7);
            let longer = allocator.realloc(blocks[0].0, of(1, 1), 50);
            assert!(longer.read() == 7 && !own.has(longer));
            allocator.dealloc(longer, of(50, 1));
            allocator.dealloc(resized, of(200, 8));
            allocator.dealloc(after, of(100, 8));
            allocator.dealloc(blocks[1].0, of(100, 64));
        }
    }

    #[test]
    fn malloc_goes_on_where_the_area_ends() {
        static OWN: OwnMemory = OwnMemory::new();
        let (own, allocator) = (&OWN, ProgramAllocator::beside(&OWN));
        own.begin();
        // SAFETY: as above.
        unsafe {
            let all = allocator.alloc_zeroed(of(LENGTH - 8, 16));
            let [last, none, aligned] =
                [allocator.alloc(of(8, 8)), allocator.alloc(of(1, 1)), allocator.alloc(of(16, 8192))];
            assert!(own.has(all) && own.has(last) && !own.has(none) && !own.has(aligned) && !aligned.is_null());
            allocator.dealloc(none, of(1, 1));
            allocator.dealloc(aligned, of(16, 8192));
        }
    }
}
