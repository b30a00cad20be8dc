//! A heap at one moment in a few figures, for `mallinfo` and the statistics.

use core::ops::AddAssign;

use heapwright_cached as cached;
use heapwright_heaps::Counters;

use crate::heap::Heap;

/// A number of pieces and their total size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pieces {
    /// Number of pieces.
    pub count: usize,
    /// Total bytes.
    pub bytes: usize,
}

impl AddAssign for Pieces {
    fn add_assign(&mut self, more: Pieces) {
        self.count += more.count;
        self.bytes += more.bytes;
    }
}

/// The heap at one moment. Its length is the sum of used, listed and free bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Live blocks.
    pub used: Pieces,
    /// In the cached heap, free blocks in the thread caches of the calling thread and of threads that have ended.
    /// Blocks in other thread caches count as used.
    pub listed: Pieces,
    /// Holes and, in the cached heap, other free blocks. The bytes are what remains of the heap's length.
    pub free: Pieces,
    /// Blocks that are their own mappings, outside the heap.
    pub mapped: Pieces,
    /// Bytes of the free tail, which `free` includes.
    pub tail: usize,
}

impl Summary {
    /// Returns the length of the heap in bytes.
    #[must_use]
    pub fn heap(&self) -> usize {
        self.used.bytes + self.listed.bytes + self.free.bytes
    }

    pub(crate) fn of(heap: &mut Heap) -> Summary {
        match heap {
            Heap::Growing(heap) => {
                let heap = heap.settled();
                heap.counters().map(|counters| Summary {
                    used: used(&counters),
                    free: holes(&counters),
                    tail: (counters.heap_size as usize).saturating_sub(heap.top()),
                    ..Summary::default()
                })
            }
            Heap::Mapped(heap) => Some(Summary { mapped: used(&heap.counters()), ..Summary::default() }),
            Heap::Cached => cached::census().map(|census| Summary::of_cached(&census)),
        }
        .unwrap_or_default()
    }

    /// Returns the summary of the whole cached heap.
    pub(crate) fn of_cached(census: &cached::Census) -> Summary {
        let mut summary = Summary::between_slabs(census);
        summary += Summary::of_slabs(census);
        summary
    }

    /// Returns the summary of the space between the slabs of the cached heap.
    pub(crate) fn between_slabs(census: &cached::Census) -> Summary {
        Summary {
            used: Pieces { count: census.long_blocks(), bytes: census.long_bytes() },
            free: holes(&census.pages),
            tail: census.tail,
            ..Summary::default()
        }
    }

    /// Returns the summary of the slabs.
    pub(crate) fn of_slabs(census: &cached::Census) -> Summary {
        let mut summary = Summary::default();
        for class in census.classes() {
            let pieces = |count| Pieces { count, bytes: count * class.size };
            summary.used += pieces(class.used);
            summary.listed += pieces(class.listed);
            // A block that was freed twice is listed twice.
            summary.free.count += class.free().saturating_sub(class.listed);
        }
        let dissolved = census.dissolved();
        summary.listed += Pieces { count: dissolved.listed, bytes: dissolved.listed_bytes };
        summary.free.count += dissolved.holes;
        summary.free.bytes = census.slab_bytes().saturating_sub(summary.heap());
        summary
    }
}

impl AddAssign for Summary {
    fn add_assign(&mut self, more: Summary) {
        self.used += more.used;
        self.listed += more.listed;
        self.free += more.free;
        self.mapped += more.mapped;
        self.tail += more.tail;
    }
}

fn used(counters: &Counters) -> Pieces {
    Pieces { count: (counters.blocks - counters.holes) as usize, bytes: counters.live as usize }
}

fn holes(counters: &Counters) -> Pieces {
    Pieces { count: counters.holes as usize, bytes: (counters.heap_size - counters.live) as usize }
}
