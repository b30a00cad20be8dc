//! A free block of a slab in a cache or a quarantine: its address and its class, in one word.

use core::ptr::NonNull;

use super::quarantine::Waiting;
use crate::arena::ARENA;
use crate::classes::{CLASSES, size_of_class};

/// A free block: its address in the low bits, its class above. All zeros stands for no block.
#[derive(Clone, Copy)]
pub(super) struct FreeBlock(u64);

/// The bits of an address. Processes have no longer addresses.
const ADDRESS: u32 = 57;

const _: () = assert!(CLASSES < 1 << (u64::BITS - ADDRESS));

impl FreeBlock {
    pub(super) const NONE: FreeBlock = FreeBlock(0);

    #[inline]
    pub(super) fn new(block: NonNull<u8>, class: usize) -> FreeBlock {
        FreeBlock(block.addr().get() as u64 | (class as u64) << ADDRESS)
    }

    #[inline]
    pub(super) fn class(self) -> usize {
        (self.0 >> ADDRESS) as usize
    }

    /// Returns the block's address; `None` of [`FreeBlock::NONE`].
    #[inline]
    pub(super) fn block(self) -> Option<NonNull<u8>> {
        NonNull::new(ARENA.base().with_addr((self.0 & ((1 << ADDRESS) - 1)) as usize))
    }
}

impl Waiting for FreeBlock {
    const NOTHING: FreeBlock = FreeBlock::NONE;

    #[inline]
    fn bytes(self) -> usize {
        size_of_class(self.class())
    }
}
