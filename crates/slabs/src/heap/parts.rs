//! What a heap consists of, and where heaps lie.

use core::cell::UnsafeCell;
use core::ptr::null_mut;
use core::sync::atomic::AtomicU64;

use super::cache::ThreadCache;
use super::front::Front;
use super::slabs::Slabs;
use super::tenancy::Tenancy;
use crate::arena::ARENA;
use crate::classes::{GRAIN, SMALL_CLASSES};
use crate::links::{Key, SideTable};
use crate::owner_lock::{OwnerLock, Visitor};
use crate::platform::{AtomicPtr, only_one, touch};
use crate::tables::HEAP_STEP;

/// A heap. Its address never changes, and its memory is never released.
#[repr(C, align(64))]
pub struct Heap {
    pub(super) cache: UnsafeCell<ThreadCache>,
    /// What the hardened heap has instead of the thread cache; it is used by the heap's thread alone.
    pub(super) hardened: AtomicPtr<()>,
    pub(super) owner: u32,
    pub(super) slabs: OwnerLock<Slabs>,
    /// When its thread filled lists last, as far as is known, in nanoseconds.
    pub(super) active_at: AtomicU64,
}

/// The offset of a heap in its page. Processors that compare the last 12 bits of addresses take a store to a block for
/// a store to a list, and stall, when these agree. At offset 0 a class's list would agree with the second block of a
/// slab of the class; here it agrees with neither of the first two.
pub(super) const HEAP_OFFSET: usize = 1152;

const _: () = assert!(size_of::<Front>() <= HEAP_OFFSET && HEAP_OFFSET + size_of::<Heap>() <= HEAP_STEP);
const _: () = assert!(HEAP_OFFSET / GRAIN > SMALL_CLASSES);

// SAFETY: the thread cache is used through `ThreadHeap` and `Owned` only, which stay on the heap's thread; the owner
// never changes.
unsafe impl Sync for Heap {}

only_one! {
/// The heap of a thread that has none yet: all of its lists are empty, and it owns no block.
pub(crate) static EMPTY: Heap = Heap {
    cache: UnsafeCell::new(ThreadCache::over(0, core::ptr::null(), Key(0), SideTable::NOWHERE, 0)),
    slabs: OwnerLock::new(Slabs::none_of(0)),
    owner: 0,
    active_at: AtomicU64::new(0),
    hardened: AtomicPtr::new(null_mut()),
};
}

impl Heap {
    /// Makes the heap of number `owner`.
    ///
    /// # Safety
    /// The table of heaps has room for it, and it has not been made yet.
    pub(super) unsafe fn make(owner: u32) {
        let cache = ThreadCache::over(ARENA.base().addr(), ARENA.entries(), ARENA.key(), ARENA.side_table(), owner);
        let heap = Heap {
            cache: UnsafeCell::new(cache),
            slabs: OwnerLock::new(Slabs::none_of(owner)),
            owner,
            active_at: AtomicU64::new(0),
            hardened: AtomicPtr::new(null_mut()),
        };
        // SAFETY: the places are long enough, aligned, and not used, as this function requires.
        unsafe {
            Front::make(owner);
            Heap::place_of(owner).write(heap);
        }
    }

    fn place_of(owner: u32) -> *mut Heap {
        // SAFETY: the heap lies in its page.
        unsafe { ARENA.heap_page(owner).add(HEAP_OFFSET).cast() }
    }

    /// Returns the heap of a number from 1 that has been made.
    #[inline(always)]
    pub fn of(owner: u32) -> &'static Heap {
        // SAFETY: the numbers of owners are those of heaps that have been made, and heaps are never released.
        unsafe { &*Heap::place_of(owner) }
    }

    /// Returns the number of the heap, from 1.
    pub fn owner(&self) -> u32 {
        self.owner
    }

    /// Returns what other threads use of a heap that has been made.
    #[inline(always)]
    pub(super) fn front(&self) -> &'static Front {
        Front::of(self.owner)
    }

    pub(super) fn tenancy(&self) -> &'static Tenancy {
        let tenancy = &self.front().tenancy;
        touch(&raw const *tenancy);
        tenancy
    }

    /// Locks the slabs for another thread than the owner; `None` when they are locked.
    pub(super) fn visit(&self) -> Option<Visitor<'_, Slabs>> {
        self.slabs.try_lock()
    }
}
