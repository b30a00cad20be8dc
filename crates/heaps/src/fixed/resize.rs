//! Resizing of blocks.

use core::alloc::Layout;
use core::fmt;
use core::ptr::NonNull;

use heapwright_placement::{AllocateError, Engine, ResizeError};

use super::{FixedHeap, dangling};
use crate::policy::Policy;

/// Why a block was not resized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReallocateError {
    /// No live block starts there, or it is too short for its claimed layout.
    NotABlock,
    /// There is no room in place or elsewhere.
    Allocate(AllocateError),
}

impl fmt::Display for ReallocateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReallocateError::NotABlock => f.write_str("no live block of that size starts there"),
            ReallocateError::Allocate(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ReallocateError {}

impl From<AllocateError> for ReallocateError {
    fn from(error: AllocateError) -> Self {
        ReallocateError::Allocate(error)
    }
}

impl<P: Policy> FixedHeap<'_, P> {
    /// Resizes a block of `old` requested bytes in place to `new` bytes.
    ///
    /// # Errors
    /// [`ResizeError`]; the block is unchanged.
    ///
    /// # Safety
    /// If a live block starts at `block`, its bytes above `new` are not used any more.
    pub unsafe fn resize_in_place(&mut self, block: NonNull<u8>, old: usize, new: usize) -> Result<(), ResizeError> {
        self.placement.engine.resize(self.offset(block), old, new)
    }

    /// Grows a block in place or elsewhere, and keeps its contents; returns the block.
    ///
    /// ```
    /// use core::alloc::Layout;
    /// use heapwright::{BestFit, FixedHeap};
    /// let mut region = [core::mem::MaybeUninit::uninit(); 512];
    /// let mut heap = FixedHeap::<BestFit>::new(&mut region)?;
    /// let (short, long) = (Layout::new::<[u8; 16]>(), Layout::new::<[u8; 64]>());
    /// let block = heap.allocate(short)?.cast();
    /// // SAFETY: the block was allocated for `short`.
    /// let longer = unsafe { heap.grow(block, short, long) }?;
    /// assert_eq!((longer.cast(), longer.len()), (block, 64));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ReallocateError`]; the block is unchanged.
    ///
    /// # Safety
    /// `block` was allocated for `old` and `new.size() >= old.size()`. If the result is another address, the old block
    /// is not used any more.
    pub unsafe fn grow(
        &mut self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, ReallocateError> {
        // SAFETY: the block was allocated for `old`, it does not get shorter, and the old block is not used after a
        // move, as this function requires.
        unsafe { self.reallocate(block, old, new) }
    }

    /// Shrinks a block, in place unless the new alignment forbids that; returns the block.
    ///
    /// # Errors
    /// As [`FixedHeap::grow`].
    ///
    /// # Safety
    /// `block` was allocated for `old` and `new.size() <= old.size()`. The bytes above the new size and, if the result
    /// is another address, the old block are not used any more.
    pub unsafe fn shrink(
        &mut self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, ReallocateError> {
        // SAFETY: the block was allocated for `old`, and its bytes above the new size and the old block after a move
        // are not used, as this function requires.
        unsafe { self.reallocate(block, old, new) }
    }

    /// Resizes a block, in place or elsewhere, and keeps its contents; returns the block. Growing and shrinking are the
    /// same operation.
    ///
    /// # Errors
    /// As [`FixedHeap::grow`].
    ///
    /// # Safety
    /// `block` was allocated for `old`. Its bytes above the new size and, if the result is another address, the old
    /// block are not used any more.
    pub unsafe fn reallocate(
        &mut self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, ReallocateError> {
        if old.size() == 0 {
            return Ok(self.allocate(new)?);
        }
        if self.usable_size(block).is_none_or(|usable| usable < old.size()) {
            return Err(ReallocateError::NotABlock);
        }
        if new.size() == 0 {
            let _ = self.placement.engine.deallocate_sized(self.offset(block), old.size());
            return Ok(NonNull::slice_from_raw_parts(dangling(new), 0));
        }
        let aligned = block.addr().get().is_multiple_of(new.align());
        // SAFETY: the block was allocated for `old` and its bytes above the new size are not used any more, as the
        // public functions require.
        if aligned && unsafe { self.resize_in_place(block, old.size(), new.size()) }.is_ok() {
            return Ok(NonNull::slice_from_raw_parts(block, new.size()));
        }
        let moved = self.allocate(new)?;
        // SAFETY: both blocks are live, so that they do not overlap, and hold at least this many bytes; the old one is
        // not used after this call.
        unsafe { moved.cast::<u8>().copy_from_nonoverlapping(block, old.size().min(new.size())) };
        let _ = self.placement.engine.deallocate_sized(self.offset(block), old.size());
        Ok(moved)
    }
}
