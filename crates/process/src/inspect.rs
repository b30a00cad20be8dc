//! What a program can ask about its heap.

use core::ops::AddAssign;

use heapwright_cached as cached;
use heapwright_heaps::Counters;
use heapwright_os::Output;

use crate::heap::Heap;
use crate::state::with;
use crate::statistics;

/// So many pieces, of so many bytes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pieces {
    /// How many.
    pub count: usize,
    /// Their bytes.
    pub bytes: usize,
}

impl AddAssign for Pieces {
    fn add_assign(&mut self, more: Pieces) {
        self.count += more.count;
        self.bytes += more.bytes;
    }
}

/// The heap at one moment. Its length is that of what is used, listed and free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Blocks that the program has.
    pub used: Pieces,
    /// Of the cached heap, free blocks in the lists of the calling thread and of threads that have ended. (What lies in the
    /// lists of other threads counts as used.)
    pub listed: Pieces,
    /// Holes and, of the cached heap, other free blocks. The bytes are all that remain.
    pub free: Pieces,
    /// Blocks that are mappings of their own, outside the heap.
    pub mapped: Pieces,
    /// Bytes at the heap's end that nothing lies in: part of what is free.
    pub tail: usize,
}

impl Summary {
    /// How long the heap is, in bytes.
    #[must_use]
    pub fn heap(&self) -> usize {
        self.used.bytes + self.listed.bytes + self.free.bytes
    }

    pub(crate) fn of(heap: &Heap) -> Summary {
        match heap {
            Heap::Growing(heap) => heap.counters().map(|counters| Summary {
                used: used(&counters),
                free: holes(&counters),
                tail: (counters.heap_size as usize).saturating_sub(heap.top()),
                ..Summary::default()
            }),
            Heap::Mapped(heap) => Some(Summary { mapped: used(&heap.counters()), ..Summary::default() }),
            Heap::Cached => cached::census().map(|census| Summary::of_cached(&census)),
        }
        .unwrap_or_default()
    }

    /// All of the cached heap.
    pub(crate) fn of_cached(census: &cached::Census) -> Summary {
        let mut summary = Summary::between_slabs(census);
        summary += Summary::of_slabs(census);
        summary
    }

    /// What lies between the slabs of the cached heap.
    pub(crate) fn between_slabs(census: &cached::Census) -> Summary {
        Summary {
            used: Pieces { count: census.long_blocks(), bytes: census.long_bytes() },
            free: holes(&census.pages),
            tail: census.tail,
            ..Summary::default()
        }
    }

    /// What lies in slabs.
    pub(crate) fn of_slabs(census: &cached::Census) -> Summary {
        let mut summary = Summary::default();
        for class in census.classes() {
            let pieces = |count| Pieces { count, bytes: count * class.size };
            summary.used += pieces(class.used);
            summary.listed += pieces(class.listed);
            summary.free.count += class.free() - class.listed;
        }
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

/// `mallinfo`.
#[must_use]
pub fn summary() -> Summary {
    with(|state| Summary::of(&state.heap))
}

/// `malloc_trim`: gives every whole page that nothing needs back to the system; whether there was any.
pub fn trim() -> bool {
    with(|state| state.heap.trim()) != 0
}

/// `malloc_stats`: the table on standard error.
pub fn print_statistics() {
    with(|state| statistics::print_table(state, Output::standard_error()));
}
