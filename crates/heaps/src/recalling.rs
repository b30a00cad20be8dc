//! A growing heap that recalls its last placements.
//!
//! Most policies decide by the holes alone. A free of the block that was placed last makes the holes what they were
//! before, so that the same request gets the same place again. That free can therefore wait for the next call. If that
//! is the same request, nothing is left to do for either. Next fit decides by its rover besides: this holds for a block
//! whose placement left the rover where it was, as that of the same block before did.
//!
//! Before any other call, the frees that were put off are done. The same holds for the block before, once the last one
//! is free, and so on: temporary blocks are freed in the opposite order, one inside the life of another.

use core::alloc::Layout;
use core::ptr::NonNull;

use heapwright_placement::{Counters, FreeError, Reuse};

use crate::growing::{GrowingHeap, OutOfMemory};
use crate::policy::Policy;

mod recent;

use recent::{Placed, Recent};

/// The free of a block from this length on is not put off: few pages are kept from being purged. In bytes.
const LONG: usize = 32 << 10;

/// A [`GrowingHeap`] that makes the placements and has the counters of its policy, but does less where a block is freed
/// and requested again in turns. A few frees, of the blocks that were placed last, wait for the next call. Allocation
/// and free of such a block take constant time, all else that of the policy.
///
/// ```
/// use core::alloc::Layout;
/// use heapwright::{GrowingHeap, PolicyKind, RecallingHeap};
///
/// let mut heap = RecallingHeap::new(GrowingHeap::with_policy(PolicyKind::Best)?);
/// let layout = Layout::new::<[u64; 100]>();
/// for _ in 0..1000 {
///     let block = heap.allocate(layout)?;
///     // SAFETY: the block is freed once, and not used afterwards.
///     unsafe { heap.deallocate(block, layout)? };
/// }
/// let counters = heap.settled().counters().unwrap();
/// assert_eq!((counters.mallocs, counters.frees), (1000, 1000));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RecallingHeap<P: Policy> {
    heap: GrowingHeap<P>,
    recent: Recent,
}

impl<P: Policy> RecallingHeap<P> {
    /// Recalls placements of `heap`.
    #[must_use]
    pub const fn new(heap: GrowingHeap<P>) -> Self {
        RecallingHeap { heap, recent: Recent::new() }
    }

    /// Returns the heap, after the frees that were put off.
    #[inline]
    pub fn settled(&mut self) -> &mut GrowingHeap<P> {
        self.settle();
        self.recent.forget();
        &mut self.heap
    }

    /// Returns the heap as it is, in which the blocks whose frees are put off are used.
    #[inline(always)]
    #[must_use]
    pub const fn unsettled(&self) -> &GrowingHeap<P> {
        &self.heap
    }

    /// Does the frees that were put off.
    #[inline(always)]
    fn settle(&mut self) {
        if self.recent.has_put_off() {
            self.free_put_off();
        }
    }

    #[inline(never)]
    fn free_put_off(&mut self) {
        while let Some(Placed { block, layout, is_freed_by_size, .. }) = self.recent.next_put_off() {
            // The block is live in the heap, and was allocated for this layout: its free cannot fail.
            // SAFETY: the program freed the block, and does not use it any more.
            let freed = unsafe {
                if is_freed_by_size { self.heap.deallocate(block, layout) } else { self.heap.deallocate_unsized(block) }
            };
            debug_assert!(freed.is_ok(), "a block whose free is put off is live in the heap");
        }
    }

    /// As [`GrowingHeap::allocate`].
    ///
    /// # Errors
    /// As [`GrowingHeap::allocate`].
    #[inline(always)]
    pub fn allocate(&mut self, layout: Layout) -> Result<NonNull<u8>, OutOfMemory> {
        if let Some(Placed { block, reuse, is_freed_by_size, .. }) = self.recent.take(layout) {
            let freed_as = is_freed_by_size.then(|| self.heap.requests().raised(layout.size()));
            if let Some(counters) = self.heap.counters_mut() {
                reuse.count_again(freed_as, counters);
            }
            return Ok(block);
        }
        self.place(layout, GrowingHeap::allocate)
    }

    /// As [`GrowingHeap::allocate_zeroed`].
    ///
    /// # Errors
    /// As [`GrowingHeap::allocate`].
    pub fn allocate_zeroed(&mut self, layout: Layout) -> Result<NonNull<u8>, OutOfMemory> {
        self.place(layout, GrowingHeap::allocate_zeroed)
    }

    /// Places a block after the frees that were put off, and remembers it.
    #[inline(always)]
    fn place(
        &mut self,
        layout: Layout,
        allocate: fn(&mut GrowingHeap<P>, Layout) -> Result<NonNull<u8>, OutOfMemory>,
    ) -> Result<NonNull<u8>, OutOfMemory> {
        self.settle();
        if layout.size() >= LONG || !self.recent.is_attentive() {
            self.recent.forget();
            return allocate(&mut self.heap, layout);
        }
        let (before, cursor) = (self.counted(), self.heap.cursor());
        let placed = allocate(&mut self.heap, layout);
        match before.zip(self.counted()).and_then(|(before, after)| Reuse::between(&before, &after)) {
            Some(reuse) if self.heap.cursor() == cursor => {
                if let Ok(block) = placed {
                    self.recent.note(Placed { block, layout, reuse, is_freed_by_size: false });
                }
            }
            // The heap has another length than before, or the policy is at another place, or there was no room.
            _ => self.recent.forget(),
        }
        placed
    }

    #[inline(always)]
    fn counted(&mut self) -> Option<Counters> {
        self.heap.counters_mut().copied()
    }

    /// As [`GrowingHeap::deallocate`].
    ///
    /// # Errors
    /// As [`GrowingHeap::deallocate`].
    ///
    /// # Safety
    /// As [`GrowingHeap::deallocate`].
    #[inline(always)]
    pub unsafe fn deallocate(&mut self, block: NonNull<u8>, layout: Layout) -> Result<(), FreeError> {
        // SAFETY: if a live block starts at this address, the program does not use it any more, as this function
        // requires.
        unsafe { if self.put_off_free(block, layout) { Ok(()) } else { self.settled().deallocate(block, layout) } }
    }

    /// Frees a block that was allocated for `layout` if that can wait for the next call; returns whether it did.
    ///
    /// # Safety
    /// As [`GrowingHeap::deallocate`].
    #[inline(always)]
    pub unsafe fn put_off_free(&mut self, block: NonNull<u8>, layout: Layout) -> bool {
        self.recent.give(block, Some(layout))
    }

    /// As [`GrowingHeap::deallocate_unsized`].
    ///
    /// # Errors
    /// As [`GrowingHeap::deallocate_unsized`].
    ///
    /// # Safety
    /// As [`GrowingHeap::deallocate_unsized`].
    #[inline(always)]
    pub unsafe fn deallocate_unsized(&mut self, block: NonNull<u8>) -> Result<(), FreeError> {
        if self.recent.give(block, None) {
            return Ok(());
        }
        // SAFETY: if a live block starts at this address, the program does not use it any more, as this function
        // requires.
        unsafe { self.settled().deallocate_unsized(block) }
    }

    /// Returns the number of bytes in the block at `block`; `None` when no live block starts there.
    pub fn usable_size(&mut self, block: NonNull<u8>) -> Option<usize> {
        self.settle();
        self.heap.usable_size(block)
    }
}
