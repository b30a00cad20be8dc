//! The remote-free buffers: blocks of other heaps that a thread has freed, gathered until they are handed over.

use core::ptr::NonNull;

use super::Entry;
use super::reclaim::reclaim;
use crate::ground::GROUND;
use crate::inbox::weight_of;
use crate::links::{Chain, Links};
use crate::world::{GATHERED_WEIGHT, gathered};

/// How many owners of freed blocks are gathered for at once.
pub(super) const OUTGOING: usize = 4;

/// Blocks of another heap that this thread has freed: at most 32 of them, and at most 32 KiB.
pub(super) struct Outgoing {
    owner: u32,
    /// The blocks' weight.
    weight: u32,
    pub(super) chain: Chain,
}

/// What became of a block.
pub(super) enum Added {
    /// It was the last to come already.
    Twice,
    /// It is on its way; another heap to which blocks have been handed over is overdue.
    Sent { overdue: Option<u32> },
}

impl Outgoing {
    pub(super) const NOTHING: Outgoing = Outgoing { owner: 0, weight: 0, chain: Chain::EMPTY };

    /// Adds a block of a slab of `entry`.
    ///
    /// # Safety
    /// The block is free and in no list, and the links are its class's.
    pub(super) unsafe fn add(&mut self, entry: Entry, block: NonNull<u8>, links: Links) -> Added {
        let mut overdue = None;
        if self.owner != entry.owner() {
            overdue = self.hand_over();
            self.owner = entry.owner();
        }
        let (block, chain) = (block.as_ptr(), &mut self.chain);
        if chain.first == block {
            return Added::Twice;
        }
        // SAFETY: the caller's promise.
        unsafe { links.link(block, chain.first) };
        if chain.count == 0 {
            (chain.last, chain.end) = (block, links);
        }
        chain.first = block;
        chain.count += 1;
        self.weight += weight_of(entry.class()) as u32;
        if self.chain.count == gathered() || self.weight as usize >= GATHERED_WEIGHT {
            overdue = self.hand_over().or(overdue);
        }
        Added::Sent { overdue }
    }

    /// Hands the blocks over to their owner, which is returned if they are to be reclaimed for it.
    pub(super) fn hand_over(&mut self) -> Option<u32> {
        let Outgoing { owner, weight, chain } =
            core::mem::replace(self, Outgoing { owner: self.owner, ..Self::NOTHING });
        // SAFETY: the blocks are free, and in no list but this.
        (chain.count != 0 && unsafe { GROUND.heap(owner).hand_over(&chain, weight as usize) }).then_some(owner)
    }
}

impl super::Heap {
    /// Adds blocks to those that wait for the owner; returns whether they are to be reclaimed for it.
    ///
    /// # Safety
    /// As [`Inbox::add`](crate::inbox::Inbox::add).
    unsafe fn hand_over(&self, chain: &Chain, weight: usize) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.inbox.add(chain, weight) || self.tenancy.is_idle() }
    }
}

/// Hands one block over to its owner, for a thread that has no heap.
///
/// # Safety
/// `block` is one of a slab of `entry` that nobody uses.
pub(crate) unsafe fn send_at_once(block: NonNull<u8>, entry: Entry) {
    let chain = Chain::one(block, GROUND.links(entry.class()));
    // SAFETY: the caller's promise.
    if unsafe { GROUND.heap(entry.owner()).hand_over(&chain, weight_of(entry.class())) } {
        reclaim(entry.owner());
    }
}
