//! Allocates and frees a single block repeatedly: the fast path of an allocator.

use crate::heap::Heap;
use crate::setup::Setup;

/// The number of pairs.
const PAIRS: usize = 5_000_000;

/// Allocates and frees blocks of `bytes` bytes.
pub fn run(setup: &Setup, bytes: usize) -> Result<(), String> {
    let heap = Heap::of_this_process();
    for _ in 0..setup.times(PAIRS) {
        heap.free(heap.allocate(bytes));
    }
    Ok(())
}
