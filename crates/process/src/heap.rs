//! A heap under any policy.

use core::alloc::Layout;
use core::ptr::NonNull;

use heapwright_heaps::{
    BlockState, Chosen, Counters, CreateError, FreeError, GrowingHeap, HoleStats, MappedHeap, OutOfMemory, PageReturns,
    PolicyKind, ResizeError,
};

use heapwright_cached as cached;
use heapwright_os::Refused;

use crate::settings::{Placement, Settings};

/// The least alignment of every block.
pub(crate) const ALIGN: usize = 16;

/// A block as a complaint describes it.
pub(crate) struct Extent {
    pub(crate) start: usize,
    pub(crate) size: usize,
    pub(crate) state: BlockState,
}

/// What became of a block that was to hold more or less.
pub(crate) enum Resized {
    /// It does, where it is or where its pages were moved to.
    Done(NonNull<u8>),
    /// A new block was allocated; so many bytes are to be copied and the old one is to be freed.
    Elsewhere(NonNull<u8>, usize),
}

/// Why it was not.
pub(crate) enum NotResized {
    NotABlock,
    OutOfMemory,
}

/// The verbs that all kinds of heap have.
pub(crate) enum Heap {
    Growing(GrowingHeap<Chosen>),
    Mapped(MappedHeap),
    /// The one of `heapwright_cached`, which needs no lock: see `front`.
    Cached,
}

/// A heap under `policy`. (Apart: the default heap's way is short and lies together.)
#[cold]
#[inline(never)]
fn growing_under(policy: PolicyKind, seed: u64) -> Result<Heap, CreateError> {
    let rules = heapwright_heaps::Settings { seed, ..Default::default() };
    GrowingHeap::with(policy, &rules).map(Heap::Growing)
}

impl Heap {
    pub(crate) fn new(settings: &Settings) -> Result<Heap, CreateError> {
        match settings.placement {
            Placement::Policy(policy) => growing_under(policy, settings.seed),
            Placement::Mapped => Ok(Heap::Mapped(MappedHeap::new())),
            Placement::Cached => {
                if settings.asks_for_counts() {
                    cached::keep_counts();
                }
                cached::start().map(|()| Heap::Cached).map_err(|Refused| CreateError::Refused)
            }
        }
    }

    #[inline(always)]
    pub(crate) fn allocate(&mut self, layout: Layout) -> Result<NonNull<u8>, OutOfMemory> {
        match self {
            Heap::Growing(heap) => heap.allocate(layout),
            Heap::Mapped(heap) => heap.allocate(layout),
            Heap::Cached => cached::allocate_aligned(layout.size(), layout.align()).map_err(|_| OutOfMemory),
        }
    }

    pub(crate) fn allocate_zeroed(&mut self, layout: Layout) -> Result<NonNull<u8>, OutOfMemory> {
        match self {
            Heap::Growing(heap) => heap.allocate_zeroed(layout),
            Heap::Mapped(heap) => heap.allocate(layout),
            Heap::Cached => cached::allocate_zeroed(layout.size()).map_err(|_| OutOfMemory),
        }
    }

    /// # Safety
    /// If a used block starts at `block`, nobody uses it any more.
    #[inline(always)]
    pub(crate) unsafe fn free(&mut self, block: NonNull<u8>) -> Result<(), FreeError> {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Heap::Growing(heap) => heap.deallocate_unsized(block),
                Heap::Mapped(heap) => heap.deallocate_unsized(block),
                Heap::Cached => cached::free(block),
            }
        }
    }

    /// # Safety
    /// As [`Heap::free`].
    #[inline(always)]
    pub(crate) unsafe fn free_sized(&mut self, block: NonNull<u8>, layout: Layout) -> Result<(), FreeError> {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Heap::Growing(heap) => heap.deallocate(block, layout),
                Heap::Mapped(heap) => heap.deallocate(block, layout),
                Heap::Cached => cached::free_sized(block, layout.size()),
            }
        }
    }

    /// Makes `block` hold `size` bytes where it is, or allocates another that does.
    ///
    /// # Safety
    /// If a used block starts at `block`, nobody uses what it has above `size` bytes any more.
    pub(crate) unsafe fn resize(&mut self, block: NonNull<u8>, layout: Layout) -> Result<Resized, NotResized> {
        let before = self.usable_size(block).ok_or(NotResized::NotABlock)?;
        let resized = match self {
            // SAFETY: the caller's promise.
            Heap::Growing(heap) => unsafe { heap.resize_in_place(block, before, layout.size()) }.map(|()| block),
            Heap::Mapped(heap) => {
                // SAFETY: the caller's promise.
                unsafe { heap.resize(block, before, layout.size()) }.map_err(|OutOfMemory| ResizeError::NoRoom)
            }
            // SAFETY: the caller's promise.
            Heap::Cached => unsafe { cached::resize_in_place(block, layout.size()) }.map(|()| block),
        };
        match resized {
            Ok(block) => Ok(Resized::Done(block)),
            Err(ResizeError::NotABlock) => Err(NotResized::NotABlock),
            Err(ResizeError::NoRoom) => match self.allocate(layout) {
                Ok(elsewhere) => Ok(Resized::Elsewhere(elsewhere, before.min(layout.size()))),
                Err(OutOfMemory) => Err(NotResized::OutOfMemory),
            },
        }
    }

    pub(crate) fn usable_size(&self, block: NonNull<u8>) -> Option<usize> {
        match self {
            Heap::Growing(heap) => heap.usable_size(block),
            Heap::Mapped(heap) => heap.usable_size(block),
            Heap::Cached => cached::usable_size(block),
        }
    }

    /// The block, used or free, that `address` points into.
    pub(crate) fn extent_at(&self, address: NonNull<u8>) -> Option<Extent> {
        match self {
            Heap::Growing(heap) => heap.block_containing(address).map(|block| Extent {
                start: heap.base().addr().get() + block.offset,
                size: block.size,
                state: block.state,
            }),
            Heap::Mapped(heap) => heap.block_containing(address).map(|block| Extent {
                start: block.start.addr().get(),
                size: block.size,
                state: BlockState::Used,
            }),
            Heap::Cached => None,
        }
    }

    /// Of the engine that places each block; the cached heap has other figures.
    pub(crate) fn counters(&self) -> Option<Counters> {
        match self {
            Heap::Growing(heap) => heap.counters(),
            Heap::Mapped(heap) => Some(heap.counters()),
            Heap::Cached => None,
        }
    }

    /// The counters of whoever places in the heap's region: as [`Heap::counters`], but of the cached heap those of its pages.
    pub(crate) fn placement_counters(&self) -> Option<Counters> {
        if let Heap::Cached = self { cached::page_counters() } else { self.counters() }
    }

    pub(crate) fn holes(&self) -> HoleStats {
        match self {
            Heap::Growing(heap) => heap.holes(),
            Heap::Mapped(heap) => heap.holes(),
            Heap::Cached => cached::page_holes().unwrap_or_default(),
        }
    }

    /// What was given back to the system; `None` for a heap that keeps nothing anyway.
    pub(crate) fn returns(&self) -> Option<PageReturns> {
        match self {
            Heap::Growing(heap) => Some(heap.returns()),
            Heap::Mapped(_) => None,
            Heap::Cached => cached::page_returns(),
        }
    }

    /// Gives back what can be; returns how many bytes that were.
    pub(crate) fn trim(&mut self) -> usize {
        match self {
            Heap::Growing(heap) => heap.trim(),
            Heap::Mapped(_) => 0,
            Heap::Cached => cached::trim(),
        }
    }
}
