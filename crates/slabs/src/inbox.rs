//! The inbox of a heap: remote frees that its owner has not collected yet.

use core::ptr::{NonNull, null_mut};
use core::sync::atomic::Ordering;

use crate::classes::size_of_class;
use crate::links::Chain;
use crate::platform::{AtomicPtr, AtomicUsize, BUDGET, LEAST_BUDGET};

/// Returns the weight of a freed block of a class: its length in bytes, but at least 512, because a single short block
/// keeps a page in memory.
pub(crate) const fn weight_of(class: usize) -> usize {
    const LEAST: usize = 512;
    if size_of_class(class) < LEAST { LEAST } else { size_of_class(class) }
}

/// The budget of an owner that has not collected yet: it may never do so.
const fn budget() -> core::sync::atomic::AtomicUsize {
    core::sync::atomic::AtomicUsize::new(BUDGET / 2)
}

/// A stack of carriers, see [`crate::carrier`], to which any thread adds chains, and which is taken as a whole by the
/// thread that has locked the heap's slabs. There is therefore no ABA problem, and the blocks in it do not change while
/// the slabs are locked.
#[repr(align(64))]
pub(crate) struct Inbox {
    first: AtomicPtr<u8>,
    /// The weight of the blocks that have been added and not been put back. A chain's weight is added before the chain.
    weight: AtomicUsize,
    /// The weight above which other threads reclaim: [`BUDGET`] for an owner that collects, half of it before the first
    /// time, halved by other threads that reclaim, for each time that it was exceeded, down to [`LEAST_BUDGET`]. Not
    /// synchronised, therefore not observed by loom.
    budget: core::sync::atomic::AtomicUsize,
}

impl Inbox {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Inbox {
        Inbox { first: AtomicPtr::new(null_mut()), weight: AtomicUsize::new(0), budget: budget() }
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Inbox {
        Inbox { first: AtomicPtr::new(null_mut()), weight: AtomicUsize::new(0), budget: budget() }
    }

    /// Returns whether there are blocks.
    #[inline(always)]
    pub(crate) fn is_loaded(&self) -> bool {
        !self.first.load(Ordering::Relaxed).is_null()
    }

    /// Returns how many blocks the owner collects at once: few, because an allocation waits for it, and more the more
    /// there are. What a thread collects while its lists are empty is about what it needs.
    pub(crate) fn worth_collecting(&self) -> usize {
        const LEAST: usize = 8;
        const PART: usize = 8;
        LEAST + self.weight.load(Ordering::Relaxed) / (weight_of(0) * PART)
    }

    /// Returns whether the weight exceeds the budget.
    #[inline(always)]
    pub(crate) fn is_over_budget(&self) -> bool {
        self.weight.load(Ordering::Relaxed) > self.budget.load(Ordering::Relaxed)
    }

    /// Resets the budget, because the owner collects.
    #[inline]
    pub(crate) fn reset_budget(&self) {
        if self.budget.load(Ordering::Relaxed) != BUDGET {
            self.budget.store(BUDGET, Ordering::Relaxed);
        }
    }

    /// Halves the budget, because another thread has reclaimed blocks of a `weight`: as often as if it had reclaimed
    /// whenever the budget was exceeded. Returns whether it is the least one now, so that the owner seems to sleep.
    pub(crate) fn tighten_budget(&self, weight: usize) -> bool {
        let (mut budget, mut left) = (self.budget.load(Ordering::Relaxed), weight);
        loop {
            left = left.saturating_sub(budget);
            budget = (budget / 2).max(LEAST_BUDGET);
            if left <= budget || budget == LEAST_BUDGET {
                break;
            }
        }
        self.budget.store(budget, Ordering::Relaxed);
        budget == LEAST_BUDGET
    }

    /// Returns the block that was added last; null for none. The list from there on does not change until it is taken.
    pub(crate) fn first(&self) -> *mut u8 {
        self.first.load(Ordering::Acquire)
    }

    /// Adds a chain that is not empty and its weight; returns whether the weight exceeds the budget now.
    ///
    /// # Safety
    /// Its blocks are carriers, and they and what they carry are free and in no other list.
    pub(crate) unsafe fn add(&self, chain: &Chain, weight: usize) -> bool {
        let waiting = self.weight.fetch_add(weight, Ordering::SeqCst) + weight;
        // SAFETY: the caller's promise.
        unsafe { self.push(chain) };
        waiting > self.budget.load(Ordering::Relaxed)
    }

    /// Adds a chain, but not its weight.
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

    /// Takes all blocks; returns the first of the list.
    pub(crate) fn take(&self) -> *mut u8 {
        self.first.swap(null_mut(), Ordering::Acquire)
    }

    /// Subtracts the weight of blocks that were taken and have been put back.
    pub(crate) fn subtract_weight(&self, weight: usize) {
        self.weight.fetch_sub(weight, Ordering::SeqCst);
    }

    /// Empties the inbox, in a fork's child.
    pub(crate) fn clear(&self) {
        self.first.store(null_mut(), Ordering::Relaxed);
        self.weight.store(0, Ordering::Relaxed);
    }
}

/// Blocks that were taken from the inbox of a heap and have not been collected yet: a list, behind the heap's lock.
pub(crate) struct Arrived(*mut u8);

// SAFETY: the blocks are free, and the thread that has locked the heap's slabs is the only one to use them.
unsafe impl Send for Arrived {}

impl Arrived {
    pub(crate) const NONE: Arrived = Arrived(null_mut());

    /// Takes what is in the inbox unless there are blocks left.
    pub(crate) fn take_if_none(&mut self, inbox: &Inbox) {
        if self.0.is_null() {
            self.0 = inbox.take();
        }
    }

    /// Returns the first block, which stays.
    pub(crate) fn first(&self) -> Option<NonNull<u8>> {
        NonNull::new(self.0)
    }

    /// Leaves only the blocks from `rest` on, which are linked from the first one.
    pub(crate) fn leave(&mut self, rest: Option<NonNull<u8>>) {
        self.0 = rest.map_or(null_mut(), NonNull::as_ptr);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_whole_once_the_owner_has_collected_and_shrinks_while_others_reclaim() {
        let inbox = Inbox::new();
        inbox.weight.store(BUDGET / 2 + 1, Ordering::Relaxed);
        assert!(inbox.is_over_budget());
        inbox.reset_budget();
        assert!(!inbox.is_over_budget());
        inbox.weight.store(BUDGET + 1, Ordering::Relaxed);
        assert!(inbox.is_over_budget());
        inbox.weight.store(LEAST_BUDGET, Ordering::Relaxed);
        while !inbox.tighten_budget(LEAST_BUDGET) {
            assert!(!inbox.is_over_budget());
        }
        inbox.weight.store(LEAST_BUDGET + 1, Ordering::Relaxed);
        assert!(inbox.is_over_budget());
    }

    /// While one thread reclaims, others may send much more than the budget.
    #[test]
    fn what_is_reclaimed_at_once_counts_as_often_as_it_exceeded_the_budget() {
        let inbox = Inbox::new();
        assert!(!inbox.tighten_budget(BUDGET / 2 + 1), "once");
        inbox.weight.store(BUDGET / 4 + 1, Ordering::Relaxed);
        assert!(inbox.is_over_budget());
        inbox.reset_budget();
        assert!(inbox.tighten_budget(4 * BUDGET), "until it is the least one");
    }
}
