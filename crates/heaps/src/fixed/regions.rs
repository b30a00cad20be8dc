//! One heap over several regions.

use core::alloc::Layout;
use core::ptr::NonNull;

use heapwright_placement::{AllocateError, FreeError, Violation};

use super::{FixedHeap, ReallocateError};
use crate::policy::{Chosen, Policy};

/// A heap over `N` regions that need not be adjacent, for example fast and slow memory. Each region is a [`FixedHeap`],
/// and a request goes to the first one that has room.
///
/// Every operation takes its region's time, plus one lookup per region before it.
///
/// ```
/// use core::alloc::Layout;
/// use core::mem::MaybeUninit;
/// use heapwright::{FirstFit, FixedHeap, Regions};
///
/// let (mut fast, mut slow) = ([MaybeUninit::uninit(); 256], [MaybeUninit::uninit(); 4096]);
/// let mut heap = Regions::new([FixedHeap::<FirstFit>::new(&mut fast)?, FixedHeap::new(&mut slow)?]);
/// let small = heap.allocate(Layout::new::<[u8; 100]>())?;
/// let large = heap.allocate(Layout::new::<[u8; 1000]>())?;
/// assert!(heap.heaps()[0].contains(small.cast()) && heap.heaps()[1].contains(large.cast()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Regions<'r, const N: usize, P: Policy = Chosen> {
    heaps: [FixedHeap<'r, P>; N],
}

impl<'r, const N: usize, P: Policy> Regions<'r, N, P> {
    /// Creates one heap over the regions of `heaps`, in that order.
    #[must_use]
    pub fn new(heaps: [FixedHeap<'r, P>; N]) -> Self {
        Regions { heaps }
    }

    /// Returns the heap of each region, for inspection.
    #[must_use]
    pub fn heaps(&self) -> &[FixedHeap<'r, P>; N] {
        &self.heaps
    }

    /// Allocates a block for `layout` in the first region that has room, with unspecified contents.
    ///
    /// # Errors
    /// As [`FixedHeap::allocate`], of the last region; [`AllocateError::RegionFull`] without regions.
    pub fn allocate(&mut self, layout: Layout) -> Result<NonNull<[u8]>, AllocateError> {
        let mut result = Err(AllocateError::RegionFull);
        for heap in &mut self.heaps {
            result = heap.allocate(layout);
            if result.is_ok() {
                break;
            }
        }
        result
    }

    /// Frees a block that was allocated for `layout`.
    ///
    /// # Errors
    /// As [`FixedHeap::deallocate`].
    ///
    /// # Safety
    /// If a live block starts at `block`, it is not used any more.
    pub unsafe fn deallocate(&mut self, block: NonNull<u8>, layout: Layout) -> Result<(), FreeError> {
        if layout.size() == 0 {
            return Ok(());
        }
        let heap = self.heap_of(block).ok_or(FreeError::NotABlock)?;
        // SAFETY: if a live block starts at this address, it is not used any more, as this function requires.
        unsafe { heap.deallocate(block, layout) }
    }

    /// Frees a block of unknown size.
    ///
    /// # Errors
    /// As [`FixedHeap::deallocate_unsized`].
    ///
    /// # Safety
    /// If a live block starts at `block`, it is not used any more.
    pub unsafe fn deallocate_unsized(&mut self, block: NonNull<u8>) -> Result<(), FreeError> {
        let heap = self.heap_of(block).ok_or(FreeError::NotABlock)?;
        // SAFETY: if a live block starts at this address, it is not used any more, as this function requires.
        unsafe { heap.deallocate_unsized(block) }
    }

    /// Resizes a block and keeps its contents: in place, elsewhere in its region or, when that has no room, in another
    /// one. Returns the block.
    ///
    /// # Errors
    /// [`ReallocateError`]; the block is unchanged.
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
        let heap = self.heap_of(block).ok_or(ReallocateError::NotABlock)?;
        // SAFETY: the block was allocated for `old`, and its bytes above the new size are not used any more, as this
        // function requires.
        match unsafe { heap.reallocate(block, old, new) } {
            Err(ReallocateError::Allocate(_)) => {}
            result => return result,
        }
        let moved = self.allocate(new)?;
        // SAFETY: both blocks are live, so that they do not overlap, and hold at least this many bytes; the old one is
        // not used after this call, as this function requires.
        unsafe {
            moved.cast::<u8>().copy_from_nonoverlapping(block, old.size().min(new.size()));
            let _ = self.deallocate(block, old);
        }
        Ok(moved)
    }

    /// Returns the number of bytes in the block at `block`; `None` when no live block starts there.
    #[must_use]
    pub fn usable_size(&self, block: NonNull<u8>) -> Option<usize> {
        self.heaps.iter().find_map(|heap| heap.usable_size(block))
    }

    /// Verifies every region.
    ///
    /// # Errors
    /// The first invariant that is violated.
    pub fn check(&self) -> Result<(), Violation> {
        self.heaps.iter().try_for_each(|heap| heap.check())
    }

    fn heap_of(&mut self, block: NonNull<u8>) -> Option<&mut FixedHeap<'r, P>> {
        self.heaps.iter_mut().find(|heap| heap.contains(block))
    }
}
