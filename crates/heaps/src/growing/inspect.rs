//! What can be asked about a growing heap.

use core::ptr::NonNull;

use heapwright_placement::{Block, BlockState, Blocks, Counters, Engine, HoleStats, PolicyKind, Violation};

use super::GrowingHeap;
use crate::policy::Policy;

impl<P: Policy> GrowingHeap<P> {
    /// The policy that places blocks.
    #[must_use]
    pub fn policy(&self) -> PolicyKind {
        self.engine.policy()
    }

    /// The address of the heap's first byte; the offsets of [`GrowingHeap::blocks`] count from here.
    #[must_use]
    pub fn base(&self) -> NonNull<u8> {
        self.region.base()
    }

    /// The engine's metadata, for whoever looks at it from outside the process (see [`Glance`](heapwright_placement::Glance)). It
    /// stays where it is for as long as the heap lives, and the heap writes to it.
    #[must_use]
    pub fn metadata(&self) -> NonNull<[u64]> {
        let metadata = &self.metadata;
        NonNull::slice_from_raw_parts(metadata.base().cast(), metadata.length() / size_of::<u64>())
    }

    /// How many bytes of address space the heap has.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.engine.capacity()
    }

    /// Bytes from the heap's start to its end.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        self.engine.heap_size()
    }

    /// Bytes from the heap's start to where its free tail begins; to the heap's end where there is none.
    #[must_use]
    pub fn top(&self) -> usize {
        self.engine.top()
    }

    /// How many bytes the block at `block` has; `None` when no used block starts there.
    #[inline]
    #[must_use]
    pub fn usable_size(&self, block: NonNull<u8>) -> Option<usize> {
        self.engine.usable_size(self.region.offset(block))
    }

    /// The block, used or free, that `address` points into; `None` outside the heap.
    #[must_use]
    pub fn block_containing(&self, address: NonNull<u8>) -> Option<Block> {
        self.engine.block_containing(self.region.offset(address))
    }

    /// All blocks in address order, used and free.
    pub fn blocks(&self) -> Blocks<'_, P::Engine<'static>> {
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

    /// Verifies the engine's invariants and that every used block is backed with memory. Time: proportional to the heap.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    pub fn check(&self) -> Result<(), Violation> {
        self.engine.check()?;
        let frontier = self.region.frontier();
        let bare = self.blocks().find(|block| block.state == BlockState::Used && block.offset + block.size > frontier);
        match bare {
            Some(block) => Err(Violation { invariant: "used blocks are backed with memory", offset: block.offset }),
            None if frontier > self.region.committed() => {
                Err(Violation { invariant: "what is used is committed", offset: self.region.committed() })
            }
            None => Ok(()),
        }
    }
}
