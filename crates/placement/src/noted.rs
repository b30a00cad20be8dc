//! Operations that say what they are about to do, for heaps that must survive the death of whoever works on them.

use crate::engine::{Engine, Freed};
use crate::error::{AllocateError, FreeError, ResizeError};

/// What an operation is about to make of the partition of a region into blocks, in bytes: `start..end` will be free, alone or
/// as part of longer free blocks, except `used_start..used_end`, which will be one used block. Nothing else changes but the
/// bounds between free blocks.
///
/// Every operation of every engine is one such change. Whoever keeps it from before the operation's first store until
/// after its last can complete or undo an operation that was cut short: see [`AnyEngine::recover`](crate::AnyEngine::recover).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Where the range starts that the operation divides anew.
    pub start: usize,
    /// Where that range ends; above the heap's end when the heap grows.
    pub end: usize,
    /// Where the used block in it will start.
    pub used_start: usize,
    /// Where the used block in it will end; equal to `used_start` when all of the range will be free.
    pub used_end: usize,
}

impl Change {
    /// The change that leaves nothing used in the range: what undoes an allocation.
    #[must_use]
    pub const fn undone(self) -> Change {
        Change { used_start: self.start, used_end: self.start, ..self }
    }

    /// The change of the granules `from..to` of which `used_from..used_to` will be used; `shift` is the granule's.
    #[inline(always)]
    pub(crate) const fn of_granules(from: usize, to: usize, used_from: usize, used_to: usize, shift: u32) -> Change {
        Change { start: from << shift, end: to << shift, used_start: used_from << shift, used_end: used_to << shift }
    }
}

/// An engine whose operations can be completed or undone by somebody else.
///
/// Each operation calls `note` at most once: when it knows what it will do, and before it stores anything that could not be
/// rebuilt. An operation that fails or changes nothing does not call it. What a heap's own growth rule adds is not
/// noted: such heaps are made with [`Growth::Fixed`](crate::Growth::Fixed) and [extended](Noted::extend).
pub trait Noted: Engine {
    /// [`Engine::allocate`], noted.
    ///
    /// # Errors
    /// As [`Engine::allocate`].
    fn allocate_noted(&mut self, bytes: usize, align: usize, note: impl FnOnce(Change))
    -> Result<usize, AllocateError>;

    /// [`Engine::deallocate`], noted.
    ///
    /// # Errors
    /// As [`Engine::deallocate`].
    fn deallocate_noted(&mut self, offset: usize, note: impl FnOnce(Change)) -> Result<Freed, FreeError>;

    /// [`Engine::resize`], noted.
    ///
    /// # Errors
    /// As [`Engine::resize`].
    fn resize_noted(
        &mut self,
        offset: usize,
        old: usize,
        new: usize,
        note: impl FnOnce(Change),
    ) -> Result<(), ResizeError>;

    /// Makes the heap `heap_size` bytes long (rounded down to granules), whatever its growth rule: its free tail becomes
    /// longer. Nothing happens when it is that long already.
    ///
    /// # Errors
    /// [`AllocateError::RegionFull`] above the capacity.
    fn extend(&mut self, heap_size: usize, note: impl FnOnce(Change)) -> Result<(), AllocateError>;
}
