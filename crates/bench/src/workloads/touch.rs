//! Memory that is touched must be memory that is seen: the check of the measuring itself.

use crate::heap::Heap;

/// Bytes that are touched.
const BYTES: usize = 32 << 20;

/// Touches them and ends.
pub fn run() -> Result<(), String> {
    let heap = Heap::of_this_process();
    let mut block = heap.allocate(BYTES);
    block.touch_pages(0);
    heap.free(block);
    Ok(())
}
