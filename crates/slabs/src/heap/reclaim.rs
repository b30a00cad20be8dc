//! Reclaiming: draining a heap's inbox into its slabs in place of its owner, which may sleep for ever.
//!
//! A thread that sends a batch reclaims when the inbox is over its budget, or when the heap is idle. The budget is 2
//! MiB for an owner that collects, and shrinks to 64 KiB while other threads reclaim for it. A thread that reclaims
//! does not wait for the lock of the slabs: an owner that holds it collects when one of its lists is empty, and a
//! visitor checks the inbox again after it has unlocked.

use core::ptr::NonNull;
use core::sync::atomic::Ordering::SeqCst;

use super::parts::Heap;
use super::remote_buffer::{Added, RemoteBuffer};
use super::slabs::Slabs;
use crate::arena::ARENA;
use crate::carrier::Unloaded;
use crate::classes::{GRAIN, PAGE, size_of_class};
use crate::corruption::corrupted;
use crate::entry::{DISSOLVED, Entry};
use crate::inbox::{Inbox, weight_of};
use crate::links::{Chain, Links};
use crate::origin::Origin;
use crate::platform::fence;

/// Reclaims for `owner`, and for the heaps to which its inbox leads because slabs have moved to them.
#[cold]
#[inline(never)]
pub fn reclaim(owner: u32) {
    /// The most heaps in a row: slabs seldom move, so that one is usual.
    const MOST: usize = 8;
    let mut next = Some(owner);
    for _ in 0..MOST {
        let Some(owner) = next else { return };
        next = Heap::of(owner).reclaim();
    }
}

/// Sends one block to its owner, for a thread without a heap.
///
/// # Safety
/// `block` is of that origin and is not used.
pub unsafe fn send_unbuffered(block: NonNull<u8>, origin: &Origin) {
    let mut alone = RemoteBuffer::EMPTY;
    // SAFETY: the caller's promise.
    let added = unsafe { alone.add(origin, block, ARENA.links(origin.class), ARENA.key()) };
    let Added::Buffered { overdue } = added else { return };
    if let Some(owner) = alone.flush().or(overdue) {
        reclaim(owner);
    }
}

impl Heap {
    /// Drains the inbox into the slabs unless these are locked; returns another heap that is overdue.
    fn reclaim(&self) -> Option<u32> {
        let mut overdue = None;
        // If the lock is taken, its holder finds what this thread has sent when it checks the inbox after it has
        // unlocked.
        fence(SeqCst);
        while let Some(mut slabs) = self.visit() {
            let mut moved = RemoteBuffer::EMPTY;
            let is_wanted = &|| self.slabs.is_wanted();
            let drained = drain(&self.front().inbox, &mut slabs, &mut moved, is_wanted);
            let owner_sleeps = self.front().inbox.tighten_budget(drained.weight) || self.front().tenancy.is_idle();
            if owner_sleeps && (slabs.purging.is_under_way || slabs.has_much_idle()) {
                slabs.purge_some_idle();
            }
            drop(slabs);
            overdue = moved.flush().or(overdue);
            fence(SeqCst);
            if !drained.is_all || !self.front().is_overdue() {
                break;
            }
        }
        overdue
    }

    /// Drains the inbox, frees empty slabs and purges idle pages, unless the slabs are locked. The thread cache stays.
    pub fn trim_as_visitor(&self) {
        let Some(mut slabs) = self.visit() else { return };
        let mut moved = RemoteBuffer::EMPTY;
        let is_wanted = &|| self.slabs.is_wanted();
        drain(&self.front().inbox, &mut slabs, &mut moved, is_wanted);
        slabs.release_empty(is_wanted);
        slabs.purge_idle(is_wanted);
        drop(slabs);
        if let Some(owner) = moved.flush() {
            reclaim(owner);
        }
    }

    /// Locks the slabs from before a fork until after it, for the thread whose heap this is. A signal handler that
    /// forks may have interrupted any function of the heap, hence the lists stay as they are.
    pub fn hold_for_fork(&self) {
        if !self.slabs.is_held_by_owner() {
            let mut moved = RemoteBuffer::EMPTY;
            // The child loses the blocks in the inbox.
            drain(&self.front().inbox, &mut self.slabs.lock(), &mut moved, &|| false);
            moved.flush();
        }
        self.slabs.hold_by_owner();
    }

    /// As [`Heap::hold_for_fork`], for a thread that was interrupted while it held a lock for which a visitor may wait.
    /// If the visitor does not unlock soon, the heap is not usable in the child.
    pub fn hold_for_fork_soon(&self) {
        self.slabs.try_hold_by_owner();
    }

    /// Returns whether another thread than the owner has locked the slabs.
    pub fn is_visited(&self) -> bool {
        self.slabs.is_held_by_visitor()
    }

    /// Returns whether the calling thread has locked the slabs of this heap, which is another thread's.
    pub(crate) fn is_visited_by_this_thread(&self) -> bool {
        self.slabs.is_held_by_this_visitor()
    }

    /// As [`Heap::hold_for_fork`], for another thread's heap, unless its slabs are locked.
    pub(crate) fn try_hold_for_fork(&self) {
        self.slabs.try_hold();
    }

    /// Undoes [`Heap::hold_for_fork`] or [`Heap::try_hold_for_fork`].
    pub(crate) fn let_go(&self) {
        self.slabs.let_go();
    }

    /// Does the same in the child; returns whether the heap is usable there. The blocks in the inbox are lost in the
    /// child, because threads that the child does not have may have been adding to it: at most a little more than the
    /// budget.
    pub(crate) fn let_go_in_child(&self) -> bool {
        self.front().inbox.clear();
        self.slabs.let_go_in_child()
    }

    /// Returns whether the owner has locked the slabs. If its thread no longer exists, the heap is not usable.
    pub fn is_held_by_owner(&self) -> bool {
        self.slabs.is_held_by_owner()
    }
}

/// What was drained from an inbox.
struct Drained {
    weight: usize,
    /// Whether nothing is left.
    is_all: bool,
}

/// Drains an inbox, and what has arrived from it, into the slabs of its heap until `is_wanted`. Blocks whose slabs have
/// moved to another heap are added to `moved`. What is in the inbox is taken at most twice.
#[inline(never)]
fn drain(inbox: &Inbox, slabs: &mut Slabs, moved: &mut RemoteBuffer, is_wanted: &dyn Fn() -> bool) -> Drained {
    let mut weight = 0;
    for _ in 0..2 {
        slabs.arrived.take_if_none(inbox);
        let mut together = Together::NONE;
        while let Some(carrier) = slabs.arrived.first()
            && !is_wanted()
        {
            let class = Origin::of_listed(carrier).class;
            // SAFETY: the carriers are free, and in a list that is this thread's.
            let unloaded = unsafe { Unloaded::from(carrier, class, ARENA.links(class)) };
            slabs.arrived.leave(NonNull::new(unloaded.next));
            for block in unloaded.blocks() {
                let origin = Origin::of_listed(block);
                let links = ARENA.links(origin.class);
                weight += weight_of(origin.class);
                // SAFETY: the block is free and in no list any more.
                unsafe {
                    if origin.entry.owner() != slabs.owner() {
                        moved.add(&origin, block, links, ARENA.key());
                    } else if !together.add(block, &origin) {
                        together.put_back(slabs);
                        together = Together::one(block, &origin, links);
                    }
                }
            }
        }
        together.put_back(slabs);
    }
    inbox.subtract_weight(weight);
    Drained { weight, is_all: slabs.arrived.first().is_none() }
}

/// Blocks of one class that are put back into their slab together: they begin in one page, and if they are more than
/// one, none reaches beyond it.
struct Together {
    chain: Chain,
    entry: Entry,
    class: usize,
    /// The last address in the page at which another one may begin; 0 for none.
    last: usize,
    /// The grains of the page at which they begin, one bit each: a block that was freed twice is found.
    begins: [u64; PAGE / GRAIN / 64],
}

impl Together {
    const NONE: Together =
        Together { chain: Chain::EMPTY, entry: Entry::NONE, class: 0, last: 0, begins: [0; PAGE / GRAIN / 64] };

    /// Returns one block of an origin; its slab may be a dissolved one.
    fn one(block: NonNull<u8>, origin: &Origin, links: Links) -> Together {
        let (address, length) = (block.addr().get(), size_of_class(origin.class));
        let last = (address / PAGE * PAGE + PAGE).saturating_sub(length);
        let is_alone = origin.entry.class() == DISSOLVED || address > last;
        let last = if is_alone { 0 } else { last };
        let (chain, class) = (Chain::one(block, links), origin.class);
        let mut together = Together { chain, entry: origin.entry, class, last, ..Together::NONE };
        together.note(block);
        together
    }

    /// Notes where a block begins. Ends the process if one does already.
    fn note(&mut self, block: NonNull<u8>) {
        let grain = block.addr().get() % PAGE / GRAIN;
        let (word, bit) = (&mut self.begins[grain / 64], 1 << (grain % 64));
        if *word & bit != 0 {
            corrupted(block);
        }
        *word |= bit;
    }

    /// Adds a block if it can be put back together with these; returns whether it was added.
    ///
    /// # Safety
    /// The block is free, of that origin and in no list.
    unsafe fn add(&mut self, block: NonNull<u8>, origin: &Origin) -> bool {
        let address = block.addr().get();
        let belongs = origin.entry == self.entry && address / PAGE == self.last / PAGE && address <= self.last;
        if belongs {
            self.note(block);
            // SAFETY: as this function requires; the block is of the chain's class.
            unsafe { self.chain.append(block.as_ptr(), block.as_ptr(), 1) };
        }
        belongs
    }

    /// Puts the blocks back, if there are any.
    fn put_back(&self, slabs: &mut Slabs) {
        slabs.put_back(self.class, &self.chain);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::vec;

    use super::*;
    use crate::classes::class_of;
    use crate::links::Key;

    #[test]
    fn blocks_that_reach_into_the_next_page_are_put_back_alone() {
        let memory = vec![0u8; 3 * PAGE].leak().as_mut_ptr();
        let page = memory.wrapping_add(memory.align_offset(PAGE));
        let class = class_of(768);
        let (origin, links) = (Origin { entry: Entry::new(1, class), class }, Links::InBlock(Key(0)));
        let block = |number: usize| NonNull::new(page.wrapping_add(number * size_of_class(class))).unwrap();
        let last_within = PAGE / size_of_class(class) - 1;
        let mut together = Together::one(block(0), &origin, links);
        // SAFETY: the blocks are used by this test only.
        unsafe {
            assert!(together.add(block(last_within), &origin));
            assert!(!together.add(block(last_within + 1), &origin), "it reaches beyond the page");
            assert!(!together.add(block(last_within + 2), &origin), "it begins in another page");
            assert!(!Together::one(block(last_within + 1), &origin, links).add(block(0), &origin));
        }
        assert_eq!(together.chain.count, 2);
    }
}
