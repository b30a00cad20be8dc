//! Which heap the process has, and its figures.

use core::ptr::NonNull;

use heapwright_cached as cached;
use heapwright_heaps::{Chosen, Counters, CreateError, GrowingHeap, HoleStats, MappedHeap, PageReturns, PolicyKind};
use heapwright_os::Refused;

use crate::exact::Exact;
use crate::settings::{Placement, Settings};

/// The least alignment of every block.
pub(crate) const ALIGN: usize = 16;

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

/// The heap of the process.
pub(crate) enum Heap {
    Growing(GrowingHeap<Chosen>),
    Mapped(MappedHeap),
    /// The one of `heapwright_cached`, which needs no lock.
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
                cached::harden(settings.harden);
                cached::start().map(|()| Heap::Cached).map_err(|Refused| CreateError::Refused)
            }
        }
    }

    /// The heap for which the lock is taken; `None` for the cached one, which has no use for it.
    #[inline(always)]
    pub(crate) fn exact(&mut self) -> Option<Exact<'_>> {
        match self {
            Heap::Growing(heap) => Some(Exact::Growing(heap)),
            Heap::Mapped(heap) => Some(Exact::Mapped(heap)),
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
