//! A free block of a slab in a quarantine: its address and its class, in one word.

use core::ptr::{NonNull, null_mut};

use super::quarantine::Waiting;
use heapwright_slabs::classes::{CLASSES, size_of_class};

/// A free block. All zeros stands for none.
#[derive(Clone, Copy)]
pub(super) struct FreeBlock(*mut u8);

/// The bits of an address; the class is in those above. Processes have no longer addresses.
const ADDRESS: u32 = 57;

const _: () = assert!(CLASSES < 1 << (usize::BITS - ADDRESS));

impl FreeBlock {
    #[inline(always)]
    pub(super) fn new(block: NonNull<u8>, class: usize) -> FreeBlock {
        FreeBlock(block.as_ptr().map_addr(|address| address | class << ADDRESS))
    }

    #[inline(always)]
    pub(super) fn class(self) -> usize {
        let class = self.0.addr() >> ADDRESS;
        // SAFETY: it is a class, of `new` or of all zeros.
        unsafe { core::hint::assert_unchecked(class < CLASSES) };
        class
    }

    #[inline(always)]
    pub(super) fn block(self) -> *mut u8 {
        self.0.map_addr(|address| address & ((1 << ADDRESS) - 1))
    }
}

impl Waiting for FreeBlock {
    const NOTHING: FreeBlock = FreeBlock(null_mut());

    #[inline(always)]
    fn bytes(self) -> usize {
        size_of_class(self.class())
    }
}
