//! The slabs of a handle, for one thread at a time.

use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
    compiler_fence,
};

use heapwright_os::SingleThreaded;

use super::owned::Owned;
use crate::mapped::sections::Sections;

/// No count of forks.
pub(crate) const DETACHED: u64 = u64::MAX;

/// The slabs of a handle. One thread at a time works on them; others use the engine.
pub(crate) struct Lane {
    busy: AtomicBool,
    /// The count of forks under which the process works on them; [`DETACHED`] in a heap without slabs.
    forks: AtomicU64,
    /// Whether a check through the handle found the heap damaged: nothing more is done to it.
    refused: AtomicBool,
    /// Whether other threads can work on them.
    single: SingleThreaded,
    /// The number of the handle's slot in the process table.
    slot: AtomicU8,
    /// How many bytes of data the heap is known to have.
    reach: AtomicUsize,
    /// Dropped only by [`Lane::clear`]: in the child of a fork it may be half changed by a thread of the parent.
    owned: UnsafeCell<ManuallyDrop<Owned>>,
}

impl Lane {
    /// Returns the lane of a handle that owns nothing yet.
    ///
    /// # Safety
    /// Nothing is asked of it when the sections are no longer mapped.
    pub(crate) unsafe fn new(sections: &Sections, slot: u8) -> Lane {
        Lane {
            busy: AtomicBool::new(false),
            forks: AtomicU64::new(DETACHED),
            refused: AtomicBool::new(false),
            single: SingleThreaded::find(),
            slot: AtomicU8::new(slot),
            reach: AtomicUsize::new(0),
            // SAFETY: the caller's promise.
            owned: UnsafeCell::new(ManuallyDrop::new(unsafe { Owned::new(sections, slot) })),
        }
    }

    /// The process works on slabs while its count of forks is this.
    pub(crate) fn set_forks(&self, forks: u64) {
        self.forks.store(forks, Release);
    }

    /// Has every further operation on slabs refused.
    pub(crate) fn refuse(&self) {
        self.refused.store(true, Relaxed);
        self.set_forks(DETACHED);
    }

    #[inline(always)]
    pub(crate) fn is_refused(&self) -> bool {
        self.refused.load(Relaxed)
    }

    /// Begins anew in the child of a fork, in which no other thread uses the lane.
    ///
    /// # Safety
    /// Under the segment's lock, before the child counts as attached; and as [`Lane::new`].
    pub(crate) unsafe fn restart(&self, sections: &Sections, slot: u8) {
        // SAFETY: no other thread of this process has attached. What is overwritten is not looked at and not dropped.
        unsafe { self.owned.get().write(ManuallyDrop::new(Owned::new(sections, slot))) };
        self.slot.store(slot, Relaxed);
        self.refused.store(false, Relaxed);
        self.busy.store(false, Relaxed);
    }

    /// Frees the lists of a handle that leaves the segment.
    pub(crate) fn clear(&self) {
        if let Some(mut owned) = self.enter() {
            *owned = Owned::nothing();
        }
    }

    #[inline(always)]
    pub(crate) fn slot(&self) -> u8 {
        self.slot.load(Relaxed)
    }

    #[inline(always)]
    pub(crate) fn reach(&self) -> usize {
        self.reach.load(Relaxed)
    }

    /// Heaps never become shorter.
    pub(crate) fn set_reach(&self, size: usize) {
        self.reach.store(size, Relaxed);
    }

    /// As [`Lane::enter`], if the process, whose count of forks this is, works on slabs.
    #[inline(always)]
    pub(crate) fn enter_under(&self, forks: u64) -> Option<Entered<'_>> {
        // Acquire: a thread that sees the count sees the slabs that go with it.
        if self.forks.load(Acquire) == forks { self.enter() } else { None }
    }

    /// Returns the handle's slabs, unless another thread, or what a signal interrupted, works on them.
    #[inline(always)]
    pub(crate) fn enter(&self) -> Option<Entered<'_>> {
        let busy = if self.single.holds() {
            let busy = self.busy.load(Relaxed);
            self.busy.store(true, Relaxed);
            compiler_fence(SeqCst);
            busy
        } else {
            self.busy.swap(true, Acquire)
        };
        if busy { None } else { Some(Entered { lane: self }) }
    }
}

/// A handle's slabs, for one thread.
pub(crate) struct Entered<'l> {
    lane: &'l Lane,
}

impl Deref for Entered<'_> {
    type Target = Owned;

    #[inline(always)]
    fn deref(&self) -> &Owned {
        // SAFETY: this was made after finding the lane idle and making it busy.
        unsafe { &*self.lane.owned.get() }
    }
}

impl DerefMut for Entered<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Owned {
        // SAFETY: as above, and this is borrowed.
        unsafe { &mut *self.lane.owned.get() }
    }
}

impl Drop for Entered<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.lane.busy.store(false, Release);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::SharedHeap;
    use crate::terms::place::Place;
    use crate::terms::settings::{Settings, SmallBlocks};

    /// A heap with slabs, of which only this handle is left.
    pub(crate) fn heap_with_slabs(name: &str) -> SharedHeap {
        let place = Place::new(format!("heapwright-test-{name}-{}", std::process::id())).unwrap();
        let settings = Settings { small: SmallBlocks::Slabs, ..Settings::default() };
        let heap = SharedHeap::create(&place, &settings).unwrap();
        SharedHeap::unlink(&place).unwrap();
        heap
    }

    /// When a process forked, another thread of it may have been in the middle of a change to the lists. Its child is
    /// not attached.
    #[test]
    fn an_unused_handle_of_a_child_is_dropped_whatever_its_parents_lists_are() {
        let heap = heap_with_slabs("unused");
        heap.allocate(100).unwrap();
        heap.set_detached();
        // SAFETY: no other thread uses the lists, which are not used any more.
        unsafe { heap.lane.owned.get().cast::<u8>().write_bytes(0x5a, size_of::<Owned>()) };
        drop(heap);
    }
}
