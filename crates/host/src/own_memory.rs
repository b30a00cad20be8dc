//! Memory beside malloc, for a process that measures malloc's heap: what it needs for itself leaves no trace there. And
//! for a process that malloc refuses memory: it ends in good order.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::out_of_memory;

/// The length of the area in bytes. A replay takes a few kilobytes of it, and some more for each thread.
const LENGTH: usize = 1 << 20;

/// A program's global allocator: malloc, or between [`OwnMemory::begin`] and [`OwnMemory::end`] an area of 1 MiB of the
/// program's own, of which nothing is used again. When the area is used up, malloc goes on. Memory that malloc refuses
/// ends the process, as [`out_of_memory`] describes.
pub struct OwnMemory {
    area: Area,
    is_begun: AtomicBool,
    /// The bytes at the front of the area that are taken.
    taken: AtomicUsize,
}

/// Aligned as any block that the program asks for; what is aligned further comes from malloc.
#[repr(align(4096))]
struct Area(UnsafeCell<[u8; LENGTH]>);

/// The alignment of the area.
const ALIGNMENT: usize = align_of::<Area>();

// SAFETY: threads share the area only as blocks, each of which one request has taken.
unsafe impl Sync for Area {}

impl OwnMemory {
    /// Returns an area of which nothing is taken, and which is not used yet.
    #[must_use]
    pub const fn new() -> OwnMemory {
        OwnMemory {
            area: Area(UnsafeCell::new([0; LENGTH])),
            is_begun: AtomicBool::new(false),
            taken: AtomicUsize::new(0),
        }
    }

    /// Takes blocks from the area from now on.
    pub fn begin(&self) {
        self.is_begun.store(true, Ordering::Relaxed);
    }

    /// Takes blocks from malloc from now on.
    pub fn end(&self) {
        self.is_begun.store(false, Ordering::Relaxed);
    }

    /// Takes a block from the area; `None` if it is not used, or has no room.
    fn take(&self, layout: Layout) -> Option<*mut u8> {
        if !self.is_begun.load(Ordering::Relaxed) || layout.align() > ALIGNMENT {
            return None;
        }
        let start = |taken: usize| taken.checked_next_multiple_of(layout.align());
        let end = |taken: usize| start(taken)?.checked_add(layout.size()).filter(|&end| end <= LENGTH);
        let taken = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, end).ok()?;
        // SAFETY: the block ends within the area, as `end` has checked.
        Some(unsafe { self.area.0.get().cast::<u8>().add(start(taken)?) })
    }

    /// Returns `block`, of `size` bytes, which malloc may have refused.
    fn had(&self, block: *mut u8, size: usize) -> *mut u8 {
        if block.is_null() {
            out_of_memory::end(size, self);
        }
        block
    }

    fn has(&self, block: *mut u8) -> bool {
        block.addr().wrapping_sub(self.area.0.get().addr()) < LENGTH
    }
}

impl Default for OwnMemory {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: a block of the area is aligned as asked for, as long, and taken once, since what is taken only grows; others
// are the system allocator's, and go back to it.
unsafe impl GlobalAlloc for OwnMemory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        self.take(layout).unwrap_or_else(|| self.had(unsafe { System.alloc(layout) }, layout.size()))
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // The area is zero, and nothing of it is used twice.
        // SAFETY: the caller's promise.
        self.take(layout).unwrap_or_else(|| self.had(unsafe { System.alloc_zeroed(layout) }, layout.size()))
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if !self.has(block) {
            // SAFETY: the block is the system allocator's; the rest is the caller's promise.
            unsafe { System.dealloc(block, layout) }
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !self.has(block) {
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

    fn of(size: usize, align: usize) -> Layout {
        Layout::from_size_align(size, align).unwrap()
    }

    #[test]
    fn blocks_are_the_areas_own_between_begin_and_end() {
        static OWN: OwnMemory = OwnMemory::new();
        let own = &OWN;
        // SAFETY: each block is used within its length and goes back with its layout.
        unsafe {
            let before = own.alloc(of(100, 8));
            own.begin();
            let blocks =
                [(1, 1), (100, 64), (8, 8), (0x2000, 4096)].map(|(size, align)| (own.alloc(of(size, align)), align));
            let resized = own.realloc(before, of(100, 8), 200);
            own.end();
            let after = own.alloc_zeroed(of(100, 8));
            assert!(blocks.iter().all(|&(block, align)| own.has(block) && block.addr().is_multiple_of(align)));
            assert!(blocks.windows(2).all(|pair| pair[0].0 < pair[1].0));
            assert!(!own.has(resized) && !own.has(after));
            blocks[0].0.write(7);
            let longer = own.realloc(blocks[0].0, of(1, 1), 50);
            assert!(longer.read() == 7 && !own.has(longer));
            own.dealloc(longer, of(50, 1));
            own.dealloc(resized, of(200, 8));
            own.dealloc(after, of(100, 8));
            own.dealloc(blocks[1].0, of(100, 64));
        }
    }

    #[test]
    fn malloc_goes_on_where_the_area_ends() {
        static OWN: OwnMemory = OwnMemory::new();
        let own = &OWN;
        own.begin();
        // SAFETY: as above.
        unsafe {
            let all = own.alloc_zeroed(of(LENGTH - 8, 16));
            let [last, none, aligned] = [own.alloc(of(8, 8)), own.alloc(of(1, 1)), own.alloc(of(16, 8192))];
            assert!(own.has(all) && own.has(last) && !own.has(none) && !own.has(aligned) && !aligned.is_null());
            own.dealloc(none, of(1, 1));
            own.dealloc(aligned, of(16, 8192));
        }
    }
}
