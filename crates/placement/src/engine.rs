//! What every engine can do, whatever its policy.

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

/// A block as a walk of the heap sees it. Offsets and sizes are in bytes from the region's base and include the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// Where the block starts (its header, if blocks have headers).
    pub offset: usize,
    /// Its whole length, header included.
    pub size: usize,
    /// Used or free.
    pub state: BlockState,
}

/// What a free did: the block that went, and the hole it became part of. In bytes.
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
    /// The policy that places blocks.
    fn policy(&self) -> PolicyKind;

    /// Places a block of `bytes` (0 is taken as 1) at an alignment of `align` bytes and returns its payload's offset.
    ///
    /// An alignment above the granule makes the fits pass over holes that are long enough but do not hold the
    /// request at its alignment; the time is then proportional to the number of holes passed over.
    ///
    /// # Errors
    /// [`AllocateError::RegionFull`] when nothing fits and the heap may not grow;
    /// [`AllocateError::BadAlignment`] when `align` is not a power of two.
    fn allocate(&mut self, bytes: usize, align: usize) -> Result<usize, AllocateError>;

    /// Frees the block whose payload is at `offset` and merges it with its free neighbours.
    ///
    /// # Errors
    /// [`FreeError::NotABlock`] or [`FreeError::AlreadyFree`]; the heap is unchanged.
    fn deallocate(&mut self, offset: usize) -> Result<Freed, FreeError>;

    /// As [`Engine::deallocate`] for a caller who knows how many bytes were asked for, which keeps
    /// [`Counters::live_requested`] exact.
    ///
    /// # Errors
    /// Also [`FreeError::WrongSize`] when the block is too short for `bytes`.
    fn deallocate_sized(&mut self, offset: usize, bytes: usize) -> Result<Freed, FreeError>;

    /// Makes the block at `offset`, asked for with `old` bytes, hold `new` bytes (0 is taken as 1) where it is.
    /// What it no longer needs becomes a hole (unless shorter than the minimum remainder), what it needs is taken
    /// from the hole behind it, or by growing the heap when the block is the last. An `old` that is more than the block
    /// holds is taken as what it holds.
    ///
    /// # Errors
    /// [`ResizeError::NotABlock`], or [`ResizeError::NoRoom`]; the heap is unchanged.
    fn resize(&mut self, offset: usize, old: usize, new: usize) -> Result<(), ResizeError>;

    /// How many payload bytes the used block at `offset` has, or `None` when no used block's payload starts there.
    fn usable_size(&self, offset: usize) -> Option<usize>;

    /// The block, used or free, that contains the byte at `offset`; `None` outside the heap.
    fn block_containing(&self, offset: usize) -> Option<Block>;

    /// Bytes from the region's start to the heap's end.
    fn heap_size(&self) -> usize;

    /// Bytes from the region's start to where the free tail begins (among buddies, where the heap ends); no used block
    /// lies above.
    fn top(&self) -> usize;

    /// The region's length in bytes, the most that the heap can grow to.
    fn capacity(&self) -> usize;

    /// The counters, or `None` when the heap was made without statistics.
    fn counters(&self) -> Option<Counters>;

    /// Verifies every invariant of the heap's state, in time proportional to the heap (to its capacity if that is fixed).
    /// Safe, and as fast, whatever the metadata holds.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    fn check(&self) -> Result<(), Violation>;

    /// All blocks in address order, used and free.
    fn blocks(&self) -> Blocks<'_, Self>
    where
        Self: Sized,
    {
        Blocks { engine: self, at: 0 }
    }

    /// The sizes of the holes, by a walk of the heap.
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

/// A walk of a heap in address order; made by [`Engine::blocks`].
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
