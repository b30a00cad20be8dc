//! Blocks that other threads have freed, on their way to the heap that owns them.

use core::ptr::null_mut;
use core::sync::atomic::Ordering;

use crate::classes::size_of_class;
use crate::links::Chain;
use crate::world::{AtomicPtr, AtomicUsize, BUDGET, LEAST_BUDGET};

/// The weight of a freed block of a class: its length, and at least what a short one is taken to keep in memory, for one
/// short block keeps a page.
pub(crate) const fn weight_of(class: usize) -> usize {
    const LEAST: usize = 512;
    if size_of_class(class) < LEAST { LEAST } else { size_of_class(class) }
}

const fn budget() -> core::sync::atomic::AtomicUsize {
    core::sync::atomic::AtomicUsize::new(BUDGET)
}

/// A stack that any thread adds chains to and that is taken as a whole by the thread that holds the lock of the heap's
/// slabs, so that no thread ever takes what another is looking at.
#[repr(align(64))]
pub(crate) struct Inbox {
    first: AtomicPtr<u8>,
    /// The weight of what has been added and has not been put away. A chain's is added before the chain.
    weight: AtomicUsize,
    /// How much may wait: [`BUDGET`] while the owner is at work, and half of it from each reclaim by another thread on, down to
    /// [`LEAST_BUDGET`]. A hint; loom does not watch it.
    budget: core::sync::atomic::AtomicUsize,
}

impl Inbox {
    #[cfg(not(all(loom, test)))]
    pub(crate) const fn new() -> Inbox {
        Inbox { first: AtomicPtr::new(null_mut()), weight: AtomicUsize::new(0), budget: budget() }
    }

    #[cfg(all(loom, test))]
    pub(crate) fn new() -> Inbox {
        Inbox { first: AtomicPtr::new(null_mut()), weight: AtomicUsize::new(0), budget: budget() }
    }

    /// Whether something has come.
    #[inline(always)]
    pub(crate) fn is_loaded(&self) -> bool {
        !self.first.load(Ordering::Relaxed).is_null()
    }

    /// Whether more waits than may wait.
    #[inline(always)]
    pub(crate) fn is_over_budget(&self) -> bool {
        self.weight.load(Ordering::Relaxed) > self.budget.load(Ordering::Relaxed)
    }

    /// Notes that the owner is at work: what waits will be taken in by it.
    #[inline]
    pub(crate) fn loosen(&self) {
        if self.budget.load(Ordering::Relaxed) != BUDGET {
            self.budget.store(BUDGET, Ordering::Relaxed);
        }
    }

    /// Notes that another thread takes in what waits; returns whether that has been so for a while, so that the owner seems
    /// to sleep.
    pub(crate) fn tighten(&self) -> bool {
        let budget = (self.budget.load(Ordering::Relaxed) / 2).max(LEAST_BUDGET);
        self.budget.store(budget, Ordering::Relaxed);
        budget == LEAST_BUDGET
    }

    /// The block that came last; null for none. Where it leads stays as it is until all is taken.
    pub(crate) fn first(&self) -> *mut u8 {
        self.first.load(Ordering::Acquire)
    }

    /// Adds a chain that is not empty and weighs `weight`; returns whether more waits than may wait.
    ///
    /// # Safety
    /// Its blocks are free and in no other list.
    pub(crate) unsafe fn add(&self, chain: &Chain, weight: usize) -> bool {
        let waiting = self.weight.fetch_add(weight, Ordering::SeqCst) + weight;
        // SAFETY: the caller's promise.
        unsafe { self.push(chain) };
        waiting > self.budget.load(Ordering::Relaxed)
    }

    /// Adds a chain whose weight has been added.
    ///
    /// # Safety
    /// As [`Inbox::add`].
    pub(crate) unsafe fn push(&self, chain: &Chain) {
        let mut first = self.first.load(Ordering::Relaxed);
        loop {
            // SAFETY: the caller's promise.
            unsafe { chain.end.link(chain.last, first) };
            match self.first.compare_exchange_weak(first, chain.first, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }

    /// Takes all that has come: the first of a list.
    pub(crate) fn take(&self) -> *mut u8 {
        self.first.swap(null_mut(), Ordering::Acquire)
    }

    /// Notes that blocks of this weight, which were taken, have been put away.
    pub(crate) fn lighten(&self, weight: usize) {
        self.weight.fetch_sub(weight, Ordering::SeqCst);
    }

    /// Forgets all, in a fork's child.
    pub(crate) fn clear(&self) {
        self.first.store(null_mut(), Ordering::Relaxed);
        self.weight.store(0, Ordering::Relaxed);
    }
}
