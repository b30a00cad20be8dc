//! Memory beside malloc, for a process that measures malloc's heap: what it needs for itself leaves no trace there. And
//! for a process that malloc refuses memory: what it needs to end in good order.

use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The length of the area in bytes. A replay takes a few kilobytes of it, and some more for each thread.
pub(crate) const LENGTH: usize = 1 << 20;

/// An area of 1 MiB of the program's own, of which nothing is used again. Its [global allocator] takes blocks from it
/// between [`OwnMemory::begin`] and [`OwnMemory::end`], as long as there is room.
///
/// [global allocator]: crate::program_allocator::ProgramAllocator
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
    pub(crate) fn take(&self, layout: Layout) -> Option<*mut u8> {
        if !self.is_begun.load(Ordering::Relaxed) || layout.align() > ALIGNMENT {
            return None;
        }
        let start = |taken: usize| taken.checked_next_multiple_of(layout.align());
        let end = |taken: usize| start(taken)?.checked_add(layout.size()).filter(|&end| end <= LENGTH);
        let taken = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, end).ok()?;
        // SAFETY: the block ends within the area, as `end` has checked.
        Some(unsafe { self.area.0.get().cast::<u8>().add(start(taken)?) })
    }

    /// Returns whether `block` is in the area.
    pub(crate) fn has(&self, block: *mut u8) -> bool {
        block.addr().wrapping_sub(self.area.0.get().addr()) < LENGTH
    }
}

impl Default for OwnMemory {
    fn default() -> Self {
        Self::new()
    }
}
