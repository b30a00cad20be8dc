//! What can be asked about a fixed heap.

use core::ptr::NonNull;

use heapwright_placement::{Block, Blocks, Counters, Engine, HoleStats, PolicyKind, Violation};

use super::FixedHeap;
use crate::policy::Policy;

impl<'r, P: Policy> FixedHeap<'r, P> {
    /// The policy that places blocks.
    #[must_use]
    pub fn policy(&self) -> PolicyKind {
        self.engine.policy()
    }

    /// The address of the first byte that can be part of a block; the offsets of [`FixedHeap::blocks`] count from here.
    #[must_use]
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// How many bytes there are for blocks, used and free.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.engine.capacity()
    }

    /// Bytes from the base to the heap's end: the capacity, unless a growth rule makes the heap begin empty.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        self.engine.heap_size()
    }

    /// Whether `address` points into the part of the region that holds blocks, used or free.
    #[must_use]
    pub fn contains(&self, address: NonNull<u8>) -> bool {
        self.offset(address) < self.engine.capacity()
    }

    /// How many bytes the block at `block` has; `None` when no used block starts there.
    #[inline]
    #[must_use]
    pub fn usable_size(&self, block: NonNull<u8>) -> Option<usize> {
        self.engine.usable_size(self.offset(block))
    }

    /// The block, used or free, that `address` points into; `None` outside the heap.
    #[must_use]
    pub fn block_containing(&self, address: NonNull<u8>) -> Option<Block> {
        self.engine.block_containing(self.offset(address))
    }

    /// All blocks in address order, used and free.
    pub fn blocks(&self) -> Blocks<'_, P::Engine<'r>> {
        self.engine.blocks()
    }

    /// The sizes of the holes, by a walk of the heap.
    #[must_use]
    pub fn holes(&self) -> HoleStats {
        self.engine.holes()
    }

    /// What has happened in the heap; `None` when it was made without statistics.
    #[must_use]
    pub fn counters(&self) -> Option<Counters> {
        self.engine.counters()
    }

    /// Verifies the engine's invariants. Time: proportional to the heap.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    pub fn check(&self) -> Result<(), Violation> {
        self.engine.check()
    }
}
