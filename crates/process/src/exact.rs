//! One interface to the heaps that place every block by itself, behind the lock.

use core::alloc::Layout;
use core::ptr::NonNull;

use heapwright_heaps::{BlockState, FreeError, MappedHeap, OutOfMemory, ResizeError};
use heapwright_os::page_size;

#[cfg(test)]
use crate::order::{Call, record};
use crate::ruled::Ruled;

/// The outcome of a resize.
pub(crate) enum Resized {
    /// The block has the new size, in place or where its pages were moved to.
    Done(NonNull<u8>),
    /// A new block was allocated; the caller copies this many bytes to it and frees the old one.
    Elsewhere(NonNull<u8>, usize),
}

/// Why a resize failed.
pub(crate) enum NotResized {
    NotABlock,
    OutOfMemory,
}

/// A block as an error message describes it.
pub(crate) struct Extent {
    pub(crate) start: usize,
    pub(crate) size: usize,
    pub(crate) state: BlockState,
}

/// The heap of the process, unless it is the cached one.
pub(crate) enum Exact<'state> {
    Growing(&'state mut Ruled),
    Mapped(&'state mut MappedHeap),
}

impl Exact<'_> {
    #[inline(always)]
    pub(crate) fn allocate(self, layout: Layout) -> Result<NonNull<u8>, OutOfMemory> {
        let placed = match self {
            Exact::Growing(heap) => heap.allocate(layout),
            Exact::Mapped(heap) => heap.allocate(layout),
        };
        #[cfg(test)]
        record(Call::Allocate { layout, placed: placed.ok().map(NonNull::addr) });
        placed
    }

    pub(crate) fn allocate_zeroed(self, layout: Layout) -> Result<NonNull<u8>, OutOfMemory> {
        let placed = match self {
            Exact::Growing(heap) => heap.allocate_zeroed(layout),
            Exact::Mapped(heap) => heap.allocate(layout),
        };
        #[cfg(test)]
        record(Call::Allocate { layout, placed: placed.ok().map(NonNull::addr) });
        placed
    }

    /// # Safety
    /// If a live block starts at `block`, the program does not use it any more.
    #[inline(always)]
    pub(crate) unsafe fn free(self, block: NonNull<u8>) -> Result<(), FreeError> {
        #[cfg(test)]
        record(Call::Free { block: block.addr() });
        // SAFETY: if a live block starts at this address, the program does not use it any more, as this function
        // requires.
        unsafe {
            match self {
                Exact::Growing(heap) => heap.free(block),
                Exact::Mapped(heap) => heap.deallocate_unsized(block),
            }
        }
    }

    /// Frees a block that was allocated for `layout`, or had its size after a resize.
    ///
    /// # Errors
    /// [`FreeError::WrongSize`] when the block is too short for `layout`, or longer than any that is allocated for it.
    ///
    /// # Safety
    /// If a live block starts at `block`, the program does not use it any more.
    #[inline(always)]
    pub(crate) unsafe fn free_sized(self, block: NonNull<u8>, layout: Layout) -> Result<(), FreeError> {
        // SAFETY: if a live block starts at this address, the program does not use it any more, as this function
        // requires.
        unsafe {
            match self {
                Exact::Growing(heap) => heap.free_sized(block, layout),
                Exact::Mapped(heap) if heap.usable_size(block).is_some_and(|usable| usable > whole_pages(layout)) => {
                    Err(FreeError::WrongSize)
                }
                Exact::Mapped(heap) => heap.deallocate(block, layout),
            }
        }
    }

    /// Resizes `block` in place to `size` bytes, or allocates another block of that size.
    ///
    /// # Safety
    /// If a live block starts at `block`, the program does not use its bytes above the new size any more.
    pub(crate) unsafe fn resize(mut self, block: NonNull<u8>, layout: Layout) -> Result<Resized, NotResized> {
        let before = self.usable_size(block).ok_or(NotResized::NotABlock)?;
        let resized = match &mut self {
            // SAFETY: the program does not use the block's bytes above the new size, as this function requires.
            Exact::Growing(heap) => unsafe { heap.resize_in_place(block, before, layout.size()) }.map(|()| block),
            Exact::Mapped(heap) => {
                // SAFETY: the program does not use the block's bytes above the new size, as this function requires.
                unsafe { heap.resize(block, before, layout.size()) }.map_err(|OutOfMemory| ResizeError::NoRoom)
            }
        };
        #[cfg(test)]
        record(Call::Resize { block: block.addr(), before, after: layout.size(), is_done: resized.is_ok() });
        match resized {
            Ok(block) => Ok(Resized::Done(block)),
            Err(ResizeError::NotABlock) => Err(NotResized::NotABlock),
            Err(ResizeError::NoRoom) => match self.allocate(layout) {
                Ok(elsewhere) => Ok(Resized::Elsewhere(elsewhere, before.min(layout.size()))),
                Err(OutOfMemory) => Err(NotResized::OutOfMemory),
            },
        }
    }

    /// Returns whether a request of 0 bytes gets no block, which is no failure.
    pub(crate) fn denies_zero(self) -> bool {
        match self {
            Exact::Growing(heap) => heap.denies_zero(),
            Exact::Mapped(_) => false,
        }
    }

    pub(crate) fn usable_size(&mut self, block: NonNull<u8>) -> Option<usize> {
        match self {
            Exact::Growing(heap) => heap.usable_size(block),
            Exact::Mapped(heap) => heap.usable_size(block),
        }
    }

    /// Returns the block, live or free, that contains `address`.
    pub(crate) fn extent_at(self, address: NonNull<u8>) -> Option<Extent> {
        match self {
            Exact::Growing(heap) => {
                let heap = heap.settled();
                heap.block_containing(address).map(|block| Extent {
                    start: heap.base().addr().get() + block.offset,
                    size: block.size,
                    state: block.state,
                })
            }
            Exact::Mapped(heap) => heap.block_containing(address).map(|block| Extent {
                start: block.start.addr().get(),
                size: block.size,
                state: BlockState::Used,
            }),
        }
    }
}

/// Returns the usable bytes of a mapping for `layout`.
fn whole_pages(layout: Layout) -> usize {
    layout.size().max(1).next_multiple_of(page_size())
}
