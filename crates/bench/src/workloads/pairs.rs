//! A block is allocated and freed, again and again: the shortest way through an allocator.

use crate::heap::Heap;
use crate::setup::Setup;

/// Pairs.
const PAIRS: usize = 5_000_000;

/// Pairs of one size.
pub fn run(setup: &Setup, bytes: usize) -> Result<(), String> {
    let heap = Heap::of_this_process();
    for _ in 0..setup.times(PAIRS) {
        heap.free(heap.allocate(bytes));
    }
    Ok(())
}
