//! The front of a heap: what other threads use of it without a lock.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use super::tenancy::Tenancy;
use crate::arena::ARENA;
use crate::inbox::Inbox;
use crate::links::Chain;
use crate::platform::only_one;

/// The inbox of a heap, and which thread has the heap. It lies at the beginning of the heap's page.
#[repr(C)]
pub(super) struct Front {
    pub(super) inbox: Inbox,
    pub(super) tenancy: Tenancy,
}

// SAFETY: the inbox is for all threads, and the tenancy changes only behind the arena's lock.
unsafe impl Sync for Front {}

impl Front {
    /// Makes the front of the heap of number `owner`.
    ///
    /// # Safety
    /// The table of heaps has room for it, and it has not been made yet.
    pub(super) unsafe fn make(owner: u32) {
        // SAFETY: the page is long enough, aligned, and not used, as this function requires.
        unsafe { Front::place_of(owner).write(Front { inbox: Inbox::new(), tenancy: Tenancy::new() }) };
    }

    fn place_of(owner: u32) -> *mut Front {
        ARENA.heap_page(owner).cast()
    }

    /// Returns the front of the heap of a number from 1 that has been made.
    #[inline(always)]
    pub(super) fn of(owner: u32) -> &'static Front {
        // SAFETY: the numbers of owners are those of heaps that have been made, and heaps are never released.
        unsafe { &*Front::place_of(owner) }
    }

    /// Adds blocks to the inbox; returns whether the calling thread has to reclaim for the owner.
    ///
    /// # Safety
    /// As [`Inbox::add`].
    pub(super) unsafe fn receive(&self, chain: &Chain, weight: usize) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.inbox.add(chain, weight) || self.tenancy.is_idle() }
    }

    /// Returns whether other threads have to reclaim for the owner.
    pub(super) fn is_overdue(&self) -> bool {
        self.inbox.is_loaded() && (self.inbox.is_over_budget() || self.tenancy.is_idle())
    }
}

only_one! {
/// A copy of [`Registry::made`](crate::arena::Registry::made), for a thread that does not lock the arena because it has
/// done so for a fork.
pub(super) static MADE: AtomicU32 = AtomicU32::new(0);
}

/// Returns the number of heaps that were ever made, for a thread that has not locked the arena.
pub(super) fn count_made() -> u32 {
    MADE.load(Relaxed)
}
