//! Queries about the placement of a heap's blocks, for any kind of memory.

use core::ptr::NonNull;

use heapwright_placement::{Block, Blocks, Counters, Engine, HoleStats, PolicyKind, Violation};

/// An engine, and the base address that its offsets count from.
///
/// Every [`FixedHeap`](crate::FixedHeap) and `GrowingHeap` dereferences to the placement of its blocks, so that these
/// methods can be called on the heap itself.
pub struct Placement<E> {
    pub(crate) engine: E,
    /// The address of the first byte that can be part of a block, with the provenance of the whole region.
    pub(crate) base: NonNull<u8>,
}

// SAFETY: the address is only read here and does not change; the heap that contains this value owns the memory at it.
unsafe impl<E: Send> Send for Placement<E> {}
// SAFETY: a shared placement only reads its address and its engine, which is `Sync`.
unsafe impl<E: Sync> Sync for Placement<E> {}

impl<E: Engine> Placement<E> {
    /// Returns the policy that places blocks.
    #[must_use]
    pub fn policy(&self) -> PolicyKind {
        self.engine.policy()
    }

    /// Returns the address of the first byte that can be part of a block; the offsets of [`Placement::blocks`] count
    /// from here.
    #[must_use]
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Returns the length of the region in bytes: an upper bound of all blocks together, live and free.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.engine.capacity()
    }

    /// Returns the bytes from the base to the heap's end: the capacity, unless a growth rule makes the heap begin
    /// empty.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        self.engine.heap_size()
    }

    /// Returns the bytes from the base to the heap's free tail; to the heap's end if there is no free tail.
    #[must_use]
    pub fn top(&self) -> usize {
        self.engine.top()
    }

    /// Returns whether `address` points into the region: into a block, live or free, or behind the heap's end.
    #[must_use]
    pub fn contains(&self, address: NonNull<u8>) -> bool {
        self.offset(address) < self.engine.capacity()
    }

    /// Returns the number of bytes in the block at `block`; `None` when no live block starts there.
    #[inline]
    #[must_use]
    pub fn usable_size(&self, block: NonNull<u8>) -> Option<usize> {
        self.engine.usable_size(self.offset(block))
    }

    /// Returns the block, live or free, that contains `address`; `None` outside the heap.
    #[must_use]
    pub fn block_containing(&self, address: NonNull<u8>) -> Option<Block> {
        self.engine.block_containing(self.offset(address))
    }

    /// Returns all blocks in address order, live and free.
    pub fn blocks(&self) -> Blocks<'_, E> {
        self.engine.blocks()
    }

    /// Returns statistics of the holes. Time: a walk of the heap.
    #[must_use]
    pub fn holes(&self) -> HoleStats {
        self.engine.holes()
    }

    /// Returns the counters; `None` when the heap was created without statistics.
    #[must_use]
    pub fn counters(&self) -> Option<Counters> {
        self.engine.counters()
    }

    /// Verifies the engine's invariants. Time: proportional to the heap.
    ///
    /// # Errors
    /// The first invariant that is violated.
    pub fn check(&self) -> Result<(), Violation> {
        self.engine.check()
    }

    /// Returns the engine's offset of `address`; beyond the capacity for an address outside the region.
    #[inline(always)]
    pub(crate) fn offset(&self, address: NonNull<u8>) -> usize {
        address.addr().get().wrapping_sub(self.base.addr().get())
    }
}
