//! The heap of the process and its statistics.

use heapwright_cached as cached;
use heapwright_heaps::{Counters, CreateError, HoleStats, MappedHeap, PageReturns};
use heapwright_os::{MemoryLimit, Refused, page_size};

use crate::exact::Exact;
use crate::ruled::Ruled;
use crate::settings::{Dissolving, Placement, Settings};

/// The least alignment of every block of the cached heap, and under a policy unless its rules say otherwise.
pub(crate) const ALIGN: usize = 16;

/// The heap of the process.
#[expect(clippy::large_enum_variant, reason = "a process has one heap, in static memory")]
pub(crate) enum Heap {
    Growing(Ruled),
    Mapped(MappedHeap),
    /// The heap of `heapwright_cached`, which needs no lock.
    Cached,
}

impl Heap {
    pub(crate) fn new(settings: &Settings) -> Result<Heap, CreateError> {
        match settings.placement {
            Placement::Policy(policy) => Ruled::new(policy, &settings.rules, settings.seed).map(Heap::Growing),
            Placement::Mapped => Ok(Heap::Mapped(MappedHeap::new())),
            Placement::Cached => {
                if settings.asks_for_counts() {
                    cached::keep_counts();
                }
                cached::harden(settings.harden);
                if settings.dissolving == Dissolving::Off {
                    cached::turn_dissolving_off();
                }
                cached::set_purging(settings.purging);
                if let Some(limit) = settings.limit {
                    cached::set_limit(limit);
                }
                cached::start().map(|()| Heap::Cached).map_err(|Refused| CreateError::Refused)
            }
        }
    }

    /// Returns the heap that the lock protects; `None` for the cached heap, which needs no lock.
    #[inline(always)]
    pub(crate) fn exact(&mut self) -> Option<Exact<'_>> {
        match self {
            Heap::Growing(heap) => Some(Exact::Growing(heap)),
            Heap::Mapped(heap) => Some(Exact::Mapped(heap)),
            Heap::Cached => None,
        }
    }

    /// Returns the counters of the engine that places each block; the cached heap has other statistics.
    pub(crate) fn counters(&mut self) -> Option<Counters> {
        match self {
            Heap::Growing(heap) => heap.settled().counters(),
            Heap::Mapped(heap) => Some(heap.counters()),
            Heap::Cached => None,
        }
    }

    /// Returns the counters of the engine in the heap's region: as [`Heap::counters`], but for the cached heap those of
    /// its pages.
    pub(crate) fn placement_counters(&mut self) -> Option<Counters> {
        if let Heap::Cached = self { cached::page_counters() } else { self.counters() }
    }

    pub(crate) fn holes(&mut self) -> HoleStats {
        match self {
            Heap::Growing(heap) => heap.settled().holes(),
            Heap::Mapped(heap) => heap.holes(),
            Heap::Cached => cached::page_holes().unwrap_or_default(),
        }
    }

    /// Returns how much was purged; `None` for a heap that never retains freed pages.
    pub(crate) fn returns(&mut self) -> Option<PageReturns> {
        match self {
            Heap::Growing(heap) => Some(heap.settled().returns()),
            Heap::Mapped(_) => None,
            Heap::Cached => cached::page_returns(),
        }
    }

    /// Purges the pages that can be purged, and unmaps those behind the last block; returns how many bytes that were.
    pub(crate) fn trim(&mut self) -> usize {
        match self {
            Heap::Growing(heap) => {
                let heap = heap.settled();
                // Addresses matter where a limit counts them: otherwise blocks shall go where they would have gone.
                let are_counted = MemoryLimit::of_this_process() != MemoryLimit::Elsewhere;
                let retracts = are_counted || !heap.weighs_wilderness();
                let retracted = if retracts { heap.retract(page_size()) } else { 0 };
                retracted + heap.trim()
            }
            Heap::Mapped(_) => 0,
            Heap::Cached => cached::trim(),
        }
    }
}
