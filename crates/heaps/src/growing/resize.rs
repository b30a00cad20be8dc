//! Blocks that get longer or shorter.

use core::alloc::Layout;
use core::ptr::NonNull;

use heapwright_placement::{Block, BlockState, Engine, Freed, ResizeError};

use super::{GrowingHeap, OutOfMemory};
use crate::policy::Policy;

impl<P: Policy> GrowingHeap<P> {
    /// Makes a block that was asked for with `old` bytes hold `new` bytes where it is.
    ///
    /// # Errors
    /// [`ResizeError`]; nothing has changed then.
    ///
    /// # Safety
    /// If a used block starts at `block`, nobody uses what it has above `new` bytes any more.
    pub unsafe fn resize_in_place(&mut self, block: NonNull<u8>, old: usize, new: usize) -> Result<(), ResizeError> {
        let offset = self.region.offset(block);
        let before = self.engine.usable_size(offset).ok_or(ResizeError::NotABlock)?;
        self.engine.resize(offset, old, new)?;
        let after = self.engine.usable_size(offset).unwrap_or(before);
        if after < before {
            self.note_cut_off(offset + after, before - after);
        } else if self.region.reach(offset + after).is_err() {
            let _ = self.engine.resize(offset, new, old);
            return Err(ResizeError::NoRoom);
        }
        Ok(())
    }

    /// Marks the pages of what was cut off the end of a block.
    fn note_cut_off(&mut self, offset: usize, size: usize) {
        if let Some(Block { offset: hole_offset, size: hole_size, state: BlockState::Free }) =
            self.engine.block_containing(offset)
        {
            self.note(&Freed { offset, size, hole_offset, hole_size });
        }
    }

    /// Makes a block longer, where it is or elsewhere, with its contents; returns where it is now.
    ///
    /// # Errors
    /// [`OutOfMemory`]; the block is as before. Also when no block that long starts there.
    ///
    /// # Safety
    /// `block` was allocated for `old` and `new.size() >= old.size()`; when it has moved, the old one is not used any more.
    pub unsafe fn grow(&mut self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<u8>, OutOfMemory> {
        // SAFETY: the caller's promise.
        unsafe { self.reallocate(block, old, new) }
    }

    /// Makes a block shorter, where it is unless the new alignment forbids that; returns where it is now.
    ///
    /// # Errors
    /// As [`GrowingHeap::grow`].
    ///
    /// # Safety
    /// `block` was allocated for `old` and `new.size() <= old.size()`; when it has moved, the old one is not used any more.
    pub unsafe fn shrink(&mut self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<u8>, OutOfMemory> {
        // SAFETY: the caller's promise.
        unsafe { self.reallocate(block, old, new) }
    }

    unsafe fn reallocate(&mut self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<u8>, OutOfMemory> {
        if self.usable_size(block).is_none_or(|usable| usable < old.size()) {
            return Err(OutOfMemory);
        }
        let aligned = block.addr().get().is_multiple_of(new.align());
        // SAFETY: the caller's promise.
        if aligned && unsafe { self.resize_in_place(block, old.size(), new.size()) }.is_ok() {
            return Ok(block);
        }
        let moved = self.allocate(new)?;
        // SAFETY: both blocks hold that many bytes; they are used, thus apart; the caller gives the old one up.
        unsafe {
            moved.copy_from_nonoverlapping(block, old.size().min(new.size()));
            let _ = self.deallocate(block, old);
        }
        Ok(moved)
    }
}
