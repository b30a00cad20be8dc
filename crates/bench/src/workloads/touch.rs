//! Touches a known amount of memory, to validate the measurement.

use crate::heap::Heap;

/// The number of bytes touched.
const BYTES: usize = 32 << 20;

/// Allocates, touches and frees one block.
pub fn run() -> Result<(), String> {
    let heap = Heap::of_this_process();
    let mut block = heap.allocate(BYTES);
    block.touch_pages(0);
    heap.free(block);
    Ok(())
}
