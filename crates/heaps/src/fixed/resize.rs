//! Blocks that get longer or shorter.

use core::alloc::Layout;
use core::fmt;
use core::ptr::NonNull;

use heapwright_placement::{AllocateError, Engine, ResizeError};

use super::{FixedHeap, dangling};
use crate::policy::Policy;

/// Why a block did not get longer or shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReallocateError {
    /// No used block starts there, or it is too short for the layout that it is said to have.
    NotABlock,
    /// There is no room where the block is, nor elsewhere.
    Allocate(AllocateError),
}

impl fmt::Display for ReallocateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReallocateError::NotABlock => f.write_str("no used block of that size starts there"),
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
    /// Makes a block that was asked for with `old` bytes hold `new` bytes where it is.
    ///
    /// # Errors
    /// [`ResizeError`]; nothing has changed then.
    ///
    /// # Safety
    /// If a used block starts at `block`, nobody uses what it has above `new` bytes any more.
    pub unsafe fn resize_in_place(&mut self, block: NonNull<u8>, old: usize, new: usize) -> Result<(), ResizeError> {
        self.engine.resize(self.offset(block), old, new)
    }

    /// Makes a block longer, where it is or elsewhere, with its contents; returns where it is now.
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
    /// [`ReallocateError`]; the block is as before.
    ///
    /// # Safety
    /// `block` was allocated for `old` and `new.size() >= old.size()`; when it has moved, the old one is not used any more.
    pub unsafe fn grow(
        &mut self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, ReallocateError> {
        // SAFETY: the caller's promise.
        unsafe { self.reallocate(block, old, new) }
    }

    /// Makes a block shorter, where it is unless the new alignment forbids that; returns where it is now.
    ///
    /// # Errors
    /// As [`FixedHeap::grow`].
    ///
    /// # Safety
    /// `block` was allocated for `old` and `new.size() <= old.size()`; when it has moved, the old one is not used any more.
    pub unsafe fn shrink(
        &mut self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, ReallocateError> {
        // SAFETY: the caller's promise.
        unsafe { self.reallocate(block, old, new) }
    }

    /// Whatever the sizes, nothing outside the two blocks is read or written.
    unsafe fn reallocate(
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
            let _ = self.engine.deallocate_sized(self.offset(block), old.size());
            return Ok(NonNull::slice_from_raw_parts(dangling(new), 0));
        }
        let aligned = block.addr().get().is_multiple_of(new.align());
        // SAFETY: the caller's promise.
        if aligned && unsafe { self.resize_in_place(block, old.size(), new.size()) }.is_ok() {
            return Ok(NonNull::slice_from_raw_parts(block, new.size()));
        }
        let moved = self.allocate(new)?;
        // SAFETY: both blocks hold that many bytes and are used, thus apart; the caller gives the old one up.
        unsafe { moved.cast::<u8>().copy_from_nonoverlapping(block, old.size().min(new.size())) };
        let _ = self.engine.deallocate_sized(self.offset(block), old.size());
        Ok(moved)
    }
}
