//! Blocks of other heaps that a thread has freed, gathered until they are handed over to the heap that owns them.

use core::ptr::NonNull;

use super::Entry;
use crate::ground::GROUND;
use crate::links::{Chain, Links};
use crate::world::GATHERED;

/// How many owners of freed blocks are gathered for at once.
pub(super) const OUTGOING: usize = 4;

/// Blocks of another heap that this thread has freed.
pub(super) struct Outgoing {
    owner: u32,
    pub(super) chain: Chain,
}

impl Outgoing {
    pub(super) const NOTHING: Outgoing = Outgoing { owner: 0, chain: Chain::EMPTY };

    /// Adds a block of `owner`'s; returns whether it was not the last to come already, and an owner that seems to be idle to which
    /// blocks were handed over.
    ///
    /// # Safety
    /// Nobody uses the block, whose class has these links.
    pub(super) unsafe fn add(&mut self, owner: u32, block: NonNull<u8>, links: Links) -> (bool, Option<u32>) {
        let mut neglected = None;
        if self.owner != owner {
            neglected = self.hand_over();
            self.owner = owner;
        }
        let (block, chain) = (block.as_ptr(), &mut self.chain);
        if chain.first == block {
            return (false, neglected);
        }
        // SAFETY: the caller's promise.
        unsafe { links.link(block, chain.first) };
        if chain.count == 0 {
            (chain.last, chain.end) = (block, links);
        }
        chain.first = block;
        chain.count += 1;
        if chain.count == GATHERED {
            neglected = self.hand_over().or(neglected);
        }
        (true, neglected)
    }

    /// Hands the blocks over to their owner, which is returned if it seems to be idle.
    pub(super) fn hand_over(&mut self) -> Option<u32> {
        let chain = core::mem::replace(&mut self.chain, Chain::EMPTY);
        if chain.count == 0 {
            return None;
        }
        let heap = GROUND.heap(self.owner);
        // SAFETY: nobody uses these blocks.
        unsafe { heap.inbox.add(&chain) };
        heap.tenancy.is_idle().then_some(self.owner)
    }
}

/// Puts back what came to a heap whose thread has ended, if it is still idle.
#[cold]
#[inline(never)]
pub(super) fn tend(owner: u32) {
    let Some(heap) = GROUND.shared().and_then(|mut ground| ground.heaps.take(GROUND.heap(owner))) else { return };
    // SAFETY: the heap is this thread's until it is abandoned again, and not the empty one.
    unsafe { heap.put_away() };
    if let Some(mut ground) = GROUND.shared() {
        ground.heaps.abandon(heap);
    }
}

/// Hands one block over to its owner, for a thread that has no heap.
///
/// # Safety
/// `block` is one of a slab of `entry` that nobody uses.
pub(crate) unsafe fn send_at_once(block: NonNull<u8>, entry: Entry) {
    let chain = Chain::one(block, GROUND.links(entry.class()));
    // SAFETY: the caller's promise.
    unsafe { GROUND.heap(entry.owner()).inbox.add(&chain) };
}
