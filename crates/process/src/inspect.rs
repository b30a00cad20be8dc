//! What a program can ask about its heap.

use heapwright_os::Output;

use crate::state::with;
use crate::statistics;

/// The figures that `mallinfo` has room for and that this heap has, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The heap, holes included.
    pub heap: usize,
    /// Used blocks; of the cached heap, its slabs and its long blocks.
    pub used: usize,
    /// Holes.
    pub free: usize,
    /// How many holes.
    pub holes: usize,
}

/// `mallinfo`.
#[must_use]
pub fn summary() -> Summary {
    let counters = with(|state| state.heap.placement_counters()).unwrap_or_default();
    let (heap, used) = (counters.heap_size as usize, counters.live as usize);
    Summary { heap, used, free: heap - used, holes: counters.holes as usize }
}

/// `malloc_trim`: gives every whole page in a hole back to the system; whether there was any.
pub fn trim() -> bool {
    with(|state| state.heap.trim()) != 0
}

/// `malloc_stats`: the table on standard error.
pub fn print_statistics() {
    with(|state| statistics::print_table(state, Output::standard_error()));
}
