//! Operations that announce their change beforehand, for heaps that must survive the death of their user.

use crate::engine::{Engine, Freed};
use crate::error::{AllocateError, FreeError, ResizeError};

/// A planned change of the partition of a region into blocks, in bytes: `start..end` will be free, alone or as part of
/// longer free blocks, except `used_start..used_end`, which will be one used block. Nothing else changes but the bounds
/// between free blocks.
///
/// Every operation of every engine is one such change. If it is stored from before the operation's first store until
/// after its last, an interrupted operation can be completed or undone: see
/// [`AnyEngine::recover`](crate::AnyEngine::recover).
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
    /// Returns the change that leaves nothing used in the range: it undoes an allocation.
    #[must_use]
    pub const fn undone(self) -> Change {
        Change { used_start: self.start, used_end: self.start, ..self }
    }

    /// Returns the change of the granules `from..to` of which `used_from..used_to` will be used; `shift` is the
    /// granule's.
    #[inline(always)]
    pub(crate) const fn of_granules(from: usize, to: usize, used_from: usize, used_to: usize, shift: u32) -> Change {
        Change { start: from << shift, end: to << shift, used_start: used_from << shift, used_end: used_to << shift }
    }
}

/// Ignores the change. One function instead of a closure per call, so that each operation has only one instance without
/// notes.
pub(crate) fn unnoted(_: Change) {}

/// An engine whose operations can be completed or undone by another process.
///
/// Each operation calls `note` at most once: when the change is determined, and before it stores anything that could
/// not be rebuilt. An operation that fails or changes nothing does not call it. Growth by a heap's own rule is not
/// noted: such heaps are created with [`Growth::Fixed`](crate::Growth::Fixed) and [extended](Noted::extend).
///
/// `note` must not panic: counters and blocks would differ then, as [`Engine::check`] says.
pub trait Noted: Engine {
    /// Does the same as [`Engine::allocate`], noted.
    ///
    /// # Errors
    /// As [`Engine::allocate`].
    fn allocate_noted(&mut self, bytes: usize, align: usize, note: impl FnOnce(Change))
    -> Result<usize, AllocateError>;

    /// Does the same as [`Engine::deallocate`], noted.
    ///
    /// # Errors
    /// As [`Engine::deallocate`].
    fn deallocate_noted(&mut self, offset: usize, note: impl FnOnce(Change)) -> Result<Freed, FreeError>;

    /// Does the same as [`Engine::resize`], noted.
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

    /// Extends the heap to `heap_size` bytes (rounded down to granules), whatever its growth rule, by its free tail.
    /// Does nothing when the heap is already that long.
    ///
    /// # Errors
    /// [`AllocateError::RegionFull`] above the capacity.
    fn extend(&mut self, heap_size: usize, note: impl FnOnce(Change)) -> Result<(), AllocateError>;
}
