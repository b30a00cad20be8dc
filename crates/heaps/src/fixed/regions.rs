//! One heap over several regions.

use core::alloc::Layout;
use core::ptr::NonNull;

use heapwright_placement::{AllocateError, FreeError, Violation};

use super::{FixedHeap, ReallocateError};
use crate::policy::{Chosen, Policy};

/// A heap over `N` regions that need not touch, say fast memory and slow: each region is a [`FixedHeap`] of its own, and a
/// request goes to the first one that has room.
///
/// Every operation takes the time of its region's, plus one look at each region before it.
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
    /// One heap over the regions of `heaps`, in that order.
    #[must_use]
    pub fn new(heaps: [FixedHeap<'r, P>; N]) -> Self {
        Regions { heaps }
    }

    /// The heap of each region: to walk, to count and to ask.
    #[must_use]
    pub fn heaps(&self) -> &[FixedHeap<'r, P>; N] {
        &self.heaps
    }

    /// A block for `layout` in the first region that has room; its contents are whatever they were.
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
    /// As [`FixedHeap::deallocate`].
    pub unsafe fn deallocate(&mut self, block: NonNull<u8>, layout: Layout) -> Result<(), FreeError> {
        if layout.size() == 0 {
            return Ok(());
        }
        let heap = self.heap_of(block).ok_or(FreeError::NotABlock)?;
        // SAFETY: the caller's promise.
        unsafe { heap.deallocate(block, layout) }
    }

    /// Frees a block whose size the caller does not know.
    ///
    /// # Errors
    /// As [`FixedHeap::deallocate_unsized`].
    ///
    /// # Safety
    /// As [`FixedHeap::deallocate`].
    pub unsafe fn deallocate_unsized(&mut self, block: NonNull<u8>) -> Result<(), FreeError> {
        let heap = self.heap_of(block).ok_or(FreeError::NotABlock)?;
        // SAFETY: the caller's promise.
        unsafe { heap.deallocate_unsized(block) }
    }

    /// Makes a block longer or shorter with its contents: where it is, elsewhere in its region or, when that has no room,
    /// in another one; returns where it is now.
    ///
    /// # Errors
    /// [`ReallocateError`]; the block is as before.
    ///
    /// # Safety
    /// `block` was allocated for `old`; when it has moved, or above the new size, it is not used any more.
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
        // SAFETY: the caller's promise.
        match unsafe { heap.grow(block, old, new) } {
            Err(ReallocateError::Allocate(_)) => {}
            result => return result,
        }
        let moved = self.allocate(new)?;
        // SAFETY: both blocks hold that many bytes and are used, thus apart; the caller gives the old one up.
        unsafe {
            moved.cast::<u8>().copy_from_nonoverlapping(block, old.size().min(new.size()));
            let _ = self.deallocate(block, old);
        }
        Ok(moved)
    }

    /// How many bytes the block at `block` has; `None` when no used block starts there.
    #[must_use]
    pub fn usable_size(&self, block: NonNull<u8>) -> Option<usize> {
        self.heaps.iter().find_map(|heap| heap.usable_size(block))
    }

    /// Verifies every region.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    pub fn check(&self) -> Result<(), Violation> {
        self.heaps.iter().try_for_each(FixedHeap::check)
    }

    fn heap_of(&mut self, block: NonNull<u8>) -> Option<&mut FixedHeap<'r, P>> {
        self.heaps.iter_mut().find(|heap| heap.contains(block))
    }
}
