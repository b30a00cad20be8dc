//! Resizing of blocks.

use core::alloc::Layout;
use core::ptr::NonNull;

use heapwright_os::Refused;
use heapwright_placement::{Block, BlockState, Engine, Freed, PolicyKind, ResizeError};

use super::extend::Short;
use super::{GrowingHeap, OutOfMemory};
use crate::policy::Policy;

impl<P: Policy> GrowingHeap<P> {
    /// Resizes a block of `old` requested bytes in place to `new` bytes.
    ///
    /// # Errors
    /// [`ResizeError`]; the block is unchanged.
    ///
    /// # Safety
    /// If a live block starts at `block`, its bytes above `new` are not used any more.
    pub unsafe fn resize_in_place(&mut self, block: NonNull<u8>, old: usize, new: usize) -> Result<(), ResizeError> {
        let (offset, [old, new]) = (self.offset(block), [old, new].map(|bytes| self.requests.raised(bytes)));
        let before = self.placement.engine.usable_size(offset).ok_or(ResizeError::NotABlock)?;
        if let Err(error) = self.placement.engine.resize(offset, old, new) {
            self.make_room(error, offset + before, offset.saturating_add(new), new)?;
            self.placement.engine.resize(offset, old, new)?;
        }
        let after = self.placement.engine.usable_size(offset).unwrap_or(before);
        if after < before {
            self.note_cut_off(offset + after, before - after);
        } else {
            self.region.reach(offset + after);
        }
        Ok(())
    }

    /// Makes room where the engine refused to resize the block of `bytes` that ends at `end` so that it ends at
    /// `wanted`.
    #[cold]
    fn make_room(&mut self, error: ResizeError, end: usize, wanted: usize, bytes: usize) -> Result<(), ResizeError> {
        let missing = P::missing(&mut self.placement.engine);
        let made = if error != ResizeError::NoRoom {
            return Err(error);
        } else if (1..=self.region.committed()).contains(&missing) {
            self.extend_short(missing)
        } else if self.can_extend_last(end, bytes) {
            self.extend_to(wanted, if missing == 0 { Short::AsBefore } else { Short::ToTheEnd })
        } else {
            Err(Refused)
        };
        made.map_err(|Refused| ResizeError::NoRoom)
    }

    /// Returns whether a longer heap has room for a block of `bytes` that ends at `end` now: buddies never extend a
    /// block that way.
    fn can_extend_last(&self, end: usize, bytes: usize) -> bool {
        end == self.placement.engine.top()
            && bytes <= self.design.capacity
            && P::kind(self.design.choice) != PolicyKind::Buddy
    }

    /// Marks the pages that were cut off the end of a block.
    fn note_cut_off(&mut self, offset: usize, size: usize) {
        if let Some(Block { offset: hole_offset, size: hole_size, state: BlockState::Free }) =
            self.placement.engine.block_containing(offset)
        {
            self.note(&Freed { offset, size, hole_offset, hole_size });
        }
    }

    /// Grows a block in place or elsewhere, and keeps its contents; returns the block.
    ///
    /// # Errors
    /// [`OutOfMemory`]; the block is unchanged. Also when no block of that length starts there.
    ///
    /// # Safety
    /// `block` was allocated for `old` and `new.size() >= old.size()`. If the result is another address, the old block
    /// is not used any more.
    pub unsafe fn grow(&mut self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<u8>, OutOfMemory> {
        // SAFETY: the block was allocated for `old`, it does not get shorter, and the old block is not used after a
        // move, as this function requires.
        unsafe { self.reallocate(block, old, new) }
    }

    /// Shrinks a block, in place unless the new alignment forbids that; returns the block.
    ///
    /// # Errors
    /// As [`GrowingHeap::grow`].
    ///
    /// # Safety
    /// `block` was allocated for `old` and `new.size() <= old.size()`. The bytes above the new size and, if the result
    /// is another address, the old block are not used any more.
    pub unsafe fn shrink(&mut self, block: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<u8>, OutOfMemory> {
        // SAFETY: the block was allocated for `old`, and its bytes above the new size and the old block after a move
        // are not used, as this function requires.
        unsafe { self.reallocate(block, old, new) }
    }

    /// Resizes a block, in place or elsewhere, and keeps its contents; returns the block. Growing and shrinking are the
    /// same operation.
    ///
    /// # Errors
    /// As [`GrowingHeap::grow`].
    ///
    /// # Safety
    /// `block` was allocated for `old`. Its bytes above the new size and, if the result is another address, the old
    /// block are not used any more.
    pub unsafe fn reallocate(
        &mut self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<u8>, OutOfMemory> {
        if self.usable_size(block).is_none_or(|usable| usable < old.size()) {
            return Err(OutOfMemory);
        }
        let aligned = block.addr().get().is_multiple_of(new.align());
        // SAFETY: the block was allocated for `old`, and its bytes above the new size are not used any more, as the
        // public functions require.
        if aligned && unsafe { self.resize_in_place(block, old.size(), new.size()) }.is_ok() {
            return Ok(block);
        }
        let moved = self.allocate(new)?;
        // SAFETY: both blocks are live, so that they do not overlap, and hold at least this many bytes; the old one is
        // not used after this call.
        unsafe {
            moved.copy_from_nonoverlapping(block, old.size().min(new.size()));
            let _ = self.deallocate(block, old);
        }
        Ok(moved)
    }
}
