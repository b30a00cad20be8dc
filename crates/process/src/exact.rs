//! The verbs of the heaps that place every block exactly, behind the lock.

use core::alloc::Layout;
use core::ptr::NonNull;

use heapwright_heaps::{BlockState, Chosen, FreeError, GrowingHeap, MappedHeap, OutOfMemory, ResizeError};

use crate::heap::{NotResized, Resized};

/// A block as a complaint describes it.
pub(crate) struct Extent {
    pub(crate) start: usize,
    pub(crate) size: usize,
    pub(crate) state: BlockState,
}

/// The heap of the process, unless that is the cached one.
pub(crate) enum Exact<'state> {
    Growing(&'state mut GrowingHeap<Chosen>),
    Mapped(&'state mut MappedHeap),
}

impl Exact<'_> {
    #[inline(always)]
    pub(crate) fn allocate(self, layout: Layout) -> Result<NonNull<u8>, OutOfMemory> {
        match self {
            Exact::Growing(heap) => heap.allocate(layout),
            Exact::Mapped(heap) => heap.allocate(layout),
        }
    }

    pub(crate) fn allocate_zeroed(self, layout: Layout) -> Result<NonNull<u8>, OutOfMemory> {
        match self {
            Exact::Growing(heap) => heap.allocate_zeroed(layout),
            Exact::Mapped(heap) => heap.allocate(layout),
        }
    }

    /// # Safety
    /// If a used block starts at `block`, nobody uses it any more.
    #[inline(always)]
    pub(crate) unsafe fn free(self, block: NonNull<u8>) -> Result<(), FreeError> {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Exact::Growing(heap) => heap.deallocate_unsized(block),
                Exact::Mapped(heap) => heap.deallocate_unsized(block),
            }
        }
    }

    /// # Safety
    /// As [`Exact::free`].
    #[inline(always)]
    pub(crate) unsafe fn free_sized(self, block: NonNull<u8>, layout: Layout) -> Result<(), FreeError> {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Exact::Growing(heap) => heap.deallocate(block, layout),
                Exact::Mapped(heap) => heap.deallocate(block, layout),
            }
        }
    }

    /// Makes `block` hold `size` bytes where it is, or allocates another that does.
    ///
    /// # Safety
    /// If a used block starts at `block`, nobody uses what it has above `size` bytes any more.
    pub(crate) unsafe fn resize(mut self, block: NonNull<u8>, layout: Layout) -> Result<Resized, NotResized> {
        let before = self.usable_size(block).ok_or(NotResized::NotABlock)?;
        let resized = match &mut self {
            // SAFETY: the caller's promise.
            Exact::Growing(heap) => unsafe { heap.resize_in_place(block, before, layout.size()) }.map(|()| block),
            Exact::Mapped(heap) => {
                // SAFETY: the caller's promise.
                unsafe { heap.resize(block, before, layout.size()) }.map_err(|OutOfMemory| ResizeError::NoRoom)
            }
        };
        match resized {
            Ok(block) => Ok(Resized::Done(block)),
            Err(ResizeError::NotABlock) => Err(NotResized::NotABlock),
            Err(ResizeError::NoRoom) => match self.allocate(layout) {
                Ok(elsewhere) => Ok(Resized::Elsewhere(elsewhere, before.min(layout.size()))),
                Err(OutOfMemory) => Err(NotResized::OutOfMemory),
            },
        }
    }

    pub(crate) fn usable_size(&self, block: NonNull<u8>) -> Option<usize> {
        match self {
            Exact::Growing(heap) => heap.usable_size(block),
            Exact::Mapped(heap) => heap.usable_size(block),
        }
    }

    /// The block, used or free, that `address` points into.
    pub(crate) fn extent_at(self, address: NonNull<u8>) -> Option<Extent> {
        match self {
            Exact::Growing(heap) => heap.block_containing(address).map(|block| Extent {
                start: heap.base().addr().get() + block.offset,
                size: block.size,
                state: block.state,
            }),
            Exact::Mapped(heap) => heap.block_containing(address).map(|block| Extent {
                start: block.start.addr().get(),
                size: block.size,
                state: BlockState::Used,
            }),
        }
    }
}
