//! The interface of every engine, whatever its policy.

use crate::counters::{Counters, HoleStats};
use crate::error::{AllocateError, FreeError, ResizeError, Violation};
use crate::rules::PolicyKind;

/// Whether a block is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockState {
    /// Allocated.
    Used,
    /// A hole.
    Free,
}

/// A block in a walk of the heap. Offsets and sizes are in bytes from the region's base and include the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// Where the block starts (its header, if blocks have headers).
    pub offset: usize,
    /// Its whole length, header included.
    pub size: usize,
    /// Used or free.
    pub state: BlockState,
}

/// The effect of a free: the freed block, and the hole it became part of. In bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freed {
    /// Where the freed block started, header included.
    pub offset: usize,
    /// Its length, header included.
    pub size: usize,
    /// Where the hole that it now belongs to starts.
    pub hole_offset: usize,
    /// The length of that hole.
    pub hole_size: usize,
}

/// A placement engine: decides where in a region blocks go, and never touches the region.
///
/// Offsets are in bytes from the region's base and point at a block's payload (just past its header).
/// All operations are bounded: their time does not depend on how many blocks or holes there are, with one
/// exception that [`Engine::allocate`] names.
pub trait Engine {
    /// Returns the policy that places blocks.
    fn policy(&self) -> PolicyKind;

    /// Places a block of `bytes` (at least 1) at an alignment of `align` bytes and returns its payload's offset.
    ///
    /// With an alignment above the granule, the fits skip holes that are long enough but cannot hold the aligned
    /// request; the time is then proportional to the number of skipped holes.
    ///
    /// # Errors
    /// [`AllocateError::RegionFull`] when no hole fits and the heap may not grow;
    /// [`AllocateError::BadAlignment`] when `align` is not a power of two.
    fn allocate(&mut self, bytes: usize, align: usize) -> Result<usize, AllocateError>;

    /// As [`Engine::allocate`], in bounded time also with an alignment if the policy has a way; for heaps that promise
    /// no policy. [`FirstFit`](crate::FirstFit) takes, when the lowest 16 holes that are long enough are misaligned,
    /// the lowest hole that is long enough wherever it starts.
    ///
    /// # Errors
    /// As [`Engine::allocate`].
    fn allocate_soon(&mut self, bytes: usize, align: usize) -> Result<usize, AllocateError> {
        self.allocate(bytes, align)
    }

    /// Frees the block whose payload is at `offset` and merges it with its free neighbours.
    ///
    /// # Errors
    /// [`FreeError::NotABlock`] or [`FreeError::AlreadyFree`]; the heap is unchanged.
    fn deallocate(&mut self, offset: usize) -> Result<Freed, FreeError>;

    /// Frees a block as [`Engine::deallocate`] does, for a caller that provides the requested size, which keeps
    /// [`Counters::live_requested`] exact.
    ///
    /// # Errors
    /// Also [`FreeError::WrongSize`] when the block is too short for `bytes`.
    fn deallocate_sized(&mut self, offset: usize, bytes: usize) -> Result<Freed, FreeError>;

    /// Resizes the block at `offset`, requested with `old` bytes, in place to `new` bytes (at least 1). A tail that is
    /// no longer needed becomes a hole (unless shorter than the minimum remainder). Additional granules are taken from
    /// the hole behind the block, or by growing the heap if the block is the last. An `old` above the block's size is
    /// taken as that size.
    ///
    /// # Errors
    /// [`ResizeError::NotABlock`], or [`ResizeError::NoRoom`]; the heap is unchanged.
    fn resize(&mut self, offset: usize, old: usize, new: usize) -> Result<(), ResizeError>;

    /// Returns how many payload bytes the used block at `offset` has, or `None` when no used block's payload starts
    /// there.
    fn usable_size(&self, offset: usize) -> Option<usize>;

    /// Returns the block, used or free, that contains the byte at `offset`; `None` outside the heap.
    fn block_containing(&self, offset: usize) -> Option<Block>;

    /// Returns the bytes from the region's start to the heap's end.
    fn heap_size(&self) -> usize;

    /// Returns the bytes from the region's start to the free tail (for buddies, to the heap's end); no used block lies
    /// above.
    fn top(&self) -> usize;

    /// Returns the region's length in bytes, the most that the heap can grow to.
    fn capacity(&self) -> usize;

    /// Returns the counters, or `None` when the heap was created without statistics.
    fn counters(&self) -> Option<Counters>;

    /// Verifies every invariant of the heap's state, in time proportional to the heap (to its capacity if that is
    /// fixed). It is safe, and within the same time, whatever the metadata contains.
    ///
    /// # Errors
    /// The first invariant that is violated.
    fn check(&self) -> Result<(), Violation>;

    /// Returns all blocks in address order, used and free.
    fn blocks(&self) -> Blocks<'_, Self>
    where
        Self: Sized,
    {
        Blocks { engine: self, at: 0 }
    }

    /// Returns statistics of the holes, by a walk of the heap.
    fn holes(&self) -> HoleStats
    where
        Self: Sized,
    {
        let mut stats = HoleStats::default();
        for block in self.blocks().filter(|block| block.state == BlockState::Free) {
            stats.add(block.size);
        }
        stats
    }
}

/// A walk of a heap in address order; created by [`Engine::blocks`].
pub struct Blocks<'e, E: Engine> {
    engine: &'e E,
    at: usize,
}

impl<E: Engine> Iterator for Blocks<'_, E> {
    type Item = Block;

    fn next(&mut self) -> Option<Block> {
        let block = self.engine.block_containing(self.at)?;
        self.at = block.offset + block.size;
        Some(block)
    }
}
