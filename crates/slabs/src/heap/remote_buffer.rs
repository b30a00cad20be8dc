//! The remote-free buffers: blocks of other heaps that a thread has freed, to be sent to their owners in batches.

use core::ptr::NonNull;

use super::Heap;
use super::reclaim::reclaim;
use crate::arena::ARENA;
use crate::inbox::weight_of;
use crate::links::{Chain, Links};
use crate::origin::Origin;
use crate::platform::{BATCH_WEIGHT, batch_blocks};

/// The number of buffers, and thus of owners that have one at the same time.
pub(super) const REMOTE_BUFFERS: usize = 4;

/// A batch of blocks of another heap: at most 32 of them, and at most 32 KiB.
pub(super) struct RemoteBuffer {
    owner: u32,
    /// The blocks' weight, see [`weight_of`].
    weight: u32,
    pub(super) chain: Chain,
}

/// The result of adding a block.
pub(super) enum Added {
    /// The block was added last already.
    AlreadyFree,
    /// The block is in the buffer; `overdue` is a heap to reclaim for, to which a batch was sent.
    Buffered { overdue: Option<u32> },
}

impl RemoteBuffer {
    pub(super) const EMPTY: RemoteBuffer = RemoteBuffer { owner: 0, weight: 0, chain: Chain::EMPTY };

    /// Adds a block. Sends the buffer's blocks first if they are of another owner, and sends a
    /// full batch.
    ///
    /// # Safety
    /// The block is of that origin, free and in no list, and the links are its class's.
    #[inline(always)]
    pub(super) unsafe fn add(&mut self, origin: &Origin, block: NonNull<u8>, links: Links) -> Added {
        let mut overdue = None;
        if self.owner != origin.entry.owner() {
            overdue = self.flush();
            self.owner = origin.entry.owner();
        }
        let (block, chain) = (block.as_ptr(), &mut self.chain);
        if chain.first == block {
            return Added::AlreadyFree;
        }
        // SAFETY: the caller's promise.
        unsafe { links.link(block, chain.first) };
        if chain.count == 0 {
            (chain.last, chain.end) = (block, links);
        }
        chain.first = block;
        chain.count += 1;
        self.weight += weight_of(origin.class) as u32;
        if self.chain.count == batch_blocks() || self.weight as usize >= BATCH_WEIGHT {
            overdue = self.flush().or(overdue);
        }
        Added::Buffered { overdue }
    }

    /// Sends the blocks to their owner; returns it if this thread has to reclaim for it.
    #[inline(never)]
    pub(super) fn flush(&mut self) -> Option<u32> {
        let RemoteBuffer { owner, weight, chain } =
            core::mem::replace(self, RemoteBuffer { owner: self.owner, ..Self::EMPTY });
        // SAFETY: the blocks are free, and in no list but this.
        (chain.count != 0 && unsafe { Heap::of(owner).receive(&chain, weight as usize) }).then_some(owner)
    }
}

impl Heap {
    /// Adds blocks to the inbox; returns whether the calling thread has to reclaim for the owner.
    ///
    /// # Safety
    /// As [`Inbox::add`](crate::inbox::Inbox::add).
    unsafe fn receive(&self, chain: &Chain, weight: usize) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.inbox.add(chain, weight) || self.tenancy.is_idle() }
    }
}

/// Sends one block to its owner, for a thread without a heap.
///
/// # Safety
/// `block` is of that origin and is not used.
pub unsafe fn send_unbuffered(block: NonNull<u8>, origin: &Origin) {
    let chain = Chain::one(block, ARENA.links(origin.class));
    // SAFETY: the caller's promise.
    if unsafe { Heap::of(origin.entry.owner()).receive(&chain, weight_of(origin.class)) } {
        reclaim(origin.entry.owner());
    }
}
