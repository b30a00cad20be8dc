//! Long blocks where the system has no more addresses. A process of its own, because all that it asks for is refused.

mod common;

use common::{Filled, ready};
use heapwright_os::refusals;

#[test]
fn memory_that_was_freed_serves_longer_blocks_than_the_page_heap_usually_places() {
    const LONG: usize = 40 << 20;
    ready();
    let mut blocks: Vec<Filled> = (0..80_000).map(|number| Filled::new(number, 1000)).collect();
    // With nothing behind it, what is freed would be given back to the system, with its addresses.
    let last = blocks.pop();
    blocks.into_iter().for_each(Filled::free);
    heapwright_cached::trim();
    refusals::everywhere(0..u64::MAX);
    let block = Filled::try_new(1, LONG);
    refusals::nowhere();
    let block = block.expect("80 MB were freed");
    // It grows into a mapping, as others of its length do.
    let block = block.resize(2 * LONG);
    block.check();
    block.free();
    last.into_iter().for_each(Filled::free);
}
