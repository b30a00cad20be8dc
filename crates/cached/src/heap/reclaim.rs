//! Reclaiming: putting the remote frees of a heap back to its slabs in place of its owner, which may sleep for ever.
//!
//! A thread that hands blocks over reclaims when more wait than the inbox's budget, or when the owner has ended. The budget
//! is 1 MiB while the owner is at work and becomes 64 KiB while other threads reclaim for it again and again. Another
//! thread at work on the slabs is not waited for: an owner takes in what has come as soon as one of its lists is empty,
//! and a visitor looks again after it has let go.

use core::ptr::NonNull;
use core::sync::atomic::Ordering::SeqCst;

use super::outgoing::Outgoing;
use super::slabs::{Slabs, entry_of};
use super::{Entry, Heap};
use crate::ground::GROUND;
use crate::inbox::{Inbox, weight_of};
use crate::links::Chain;
use crate::world::fence;

/// Puts back what waits for `owner`, and for the heaps to which that leads, because slabs have moved to them.
#[cold]
#[inline(never)]
pub(crate) fn reclaim(owner: u32) {
    /// Slabs seldom move, so one is usual.
    const MOST: usize = 8;
    let mut next = Some(owner);
    for _ in 0..MOST {
        let Some(owner) = next else { return };
        next = GROUND.heap(owner).reclaim();
    }
}

impl Heap {
    /// Whether other threads are to put back what waits.
    pub(super) fn is_overdue(&self) -> bool {
        self.inbox.is_loaded() && (self.inbox.is_over_budget() || self.tenancy.is_idle())
    }

    /// Puts back what waits, unless another thread is at work on the slabs; returns another heap that is overdue.
    fn reclaim(&self) -> Option<u32> {
        let mut overdue = None;
        // What was handed over before another thread's visit is refused is seen by that thread when it has let go.
        fence(SeqCst);
        while let Some(mut slabs) = self.visit() {
            let mut moved = Outgoing::NOTHING;
            let owner_sleeps = self.inbox.tighten() || self.tenancy.is_idle();
            let rest = drain(&self.inbox, &mut slabs, &mut moved, || self.slabs.is_wanted());
            if owner_sleeps && slabs.has_much_idle() {
                slabs.return_idle(|| self.slabs.is_wanted());
            }
            drop(slabs);
            // SAFETY: the blocks were taken from the inbox.
            unsafe { put_off(&self.inbox, rest) };
            overdue = moved.hand_over().or(overdue);
            fence(SeqCst);
            if !rest.is_null() || !self.is_overdue() {
                break;
            }
        }
        overdue
    }

    /// Gives back to the system what a heap keeps for nothing, but for what lies in its lists, unless another thread is at
    /// work on its slabs.
    pub(crate) fn trim_as_visitor(&self) {
        let Some(mut slabs) = self.visit() else { return };
        let mut moved = Outgoing::NOTHING;
        let is_wanted = || self.slabs.is_wanted();
        let rest = drain(&self.inbox, &mut slabs, &mut moved, is_wanted);
        slabs.release_unused(is_wanted);
        slabs.return_idle(is_wanted);
        drop(slabs);
        // SAFETY: the blocks were taken from the inbox.
        unsafe { put_off(&self.inbox, rest) };
        if let Some(owner) = moved.hand_over() {
            reclaim(owner);
        }
    }

    /// Holds the slabs from before a fork until after it, for the thread whose heap this is. It may have been interrupted in
    /// the midst of any function of the heap, so that the lists stay as they are.
    pub(crate) fn hold_for_fork(&self) {
        if !self.slabs.is_held_by_owner() {
            let mut moved = Outgoing::NOTHING;
            // What waits is given up in the child.
            drain(&self.inbox, &mut self.slabs.lock(), &mut moved, || false);
            moved.hand_over();
        }
        self.slabs.hold_by_owner();
    }

    /// As [`Heap::hold_for_fork`], for a thread that was interrupted while it held a lock for which a visitor may wait: if
    /// the visitor does not leave soon, the heap is not usable in the child.
    pub(crate) fn hold_for_fork_soon(&self) {
        self.slabs.try_hold_by_owner();
    }

    /// Whether another thread is at work on the slabs.
    pub(crate) fn is_visited(&self) -> bool {
        self.slabs.is_held_by_visitor()
    }

    /// As [`Heap::hold_for_fork`], for another thread's heap, unless a thread is at work on its slabs.
    pub(crate) fn try_hold_for_fork(&self) {
        self.slabs.try_hold();
    }

    /// Undoes [`Heap::hold_for_fork`] or [`Heap::try_hold_for_fork`].
    pub(crate) fn let_go(&self) {
        self.slabs.let_go();
    }

    /// The same in the child; returns whether the heap is usable there. What has come to the inbox is lost in the child,
    /// because threads that the child does not have may have been adding to it: at most a little more than the budget.
    pub(crate) fn let_go_in_child(&self) -> bool {
        self.inbox.clear();
        self.slabs.let_go_in_child()
    }

    /// Whether a thread is at work on the slabs as their owner. If the thread does not exist, the heap is not usable.
    pub(crate) fn is_held_by_owner(&self) -> bool {
        self.slabs.is_held_by_owner()
    }
}

/// Takes all that waits in an inbox and puts it back to the slabs of its heap, until `is_wanted`; returns the first of the
/// blocks that are left. Blocks whose slabs have moved go to `moved`.
fn drain(inbox: &Inbox, slabs: &mut Slabs, moved: &mut Outgoing, is_wanted: impl Fn() -> bool) -> *mut u8 {
    let mut next = inbox.take();
    let mut weight = 0;
    while let Some(block) = NonNull::new(next)
        && !is_wanted()
    {
        let entry = entry_of(block);
        // SAFETY: what was taken is free and linked.
        let (together, rest) = unsafe { Chain::in_one_page(block, GROUND.links(entry.class()), entry.class()) };
        next = rest;
        weight += together.count as usize * weight_of(entry.class());
        if entry.owner() == slabs.owner() {
            slabs.put_back(entry.class(), &together);
        } else {
            // SAFETY: as above.
            unsafe { forward(together, entry, moved) };
        }
    }
    inbox.lighten(weight);
    next
}

/// Adds blocks of a slab of another heap to those that go there.
///
/// # Safety
/// The chain's blocks are free and in no other list.
unsafe fn forward(chain: Chain, entry: Entry, moved: &mut Outgoing) {
    let mut next = chain.first;
    for _ in 0..chain.count {
        let Some(block) = NonNull::new(next) else { return };
        // SAFETY: the caller's promise.
        unsafe {
            next = chain.end.next(next);
            moved.add(entry, block, chain.end);
        }
    }
}

/// Puts blocks that were taken back into an inbox, where they have been weighed.
///
/// # Safety
/// They are linked from `first` on, and in no other list.
unsafe fn put_off(inbox: &Inbox, first: *mut u8) {
    let Some(block) = NonNull::new(first) else { return };
    let mut chain = Chain::one(block, GROUND.links(entry_of(block).class()));
    // SAFETY: the caller's promise.
    unsafe {
        while let Some(next) = NonNull::new(chain.end.next(chain.last)) {
            chain =
                Chain { first, last: next.as_ptr(), count: chain.count + 1, end: GROUND.links(entry_of(next).class()) };
        }
        inbox.push(&chain);
    }
}
