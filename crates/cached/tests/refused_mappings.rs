//! Long blocks where the system has no more addresses. A process of its own, because all that it asks for is refused.

mod common;

use common::{Filled, ready};
use heapwright_cached as cached;
use heapwright_os::refusals;

#[test]
fn memory_that_was_freed_serves_blocks_that_usually_have_mappings() {
    const LONG: usize = 40 << 20;
    /// One that gets a mapping to grow.
    const SHORT: usize = 2 << 20;
    ready();
    let mut blocks: Vec<Filled> = (0..80_000).map(|number| Filled::new(number, 1000)).collect();
    // With nothing behind it, what is freed would be given back to the system, with its addresses.
    let last = blocks.pop();
    let growing = cached::allocate(SHORT).expect("there is memory");
    // SAFETY: the block is that long.
    unsafe { growing.write_bytes(7, SHORT) };
    blocks.into_iter().for_each(Filled::free);
    cached::trim();
    refusals::everywhere(0..u64::MAX);
    // SAFETY: the block is used by its new address from now on.
    let grown = unsafe { cached::reallocate(growing, 2 * SHORT) };
    let block = Filled::try_new(1, LONG);
    refusals::nowhere();
    let grown = grown.expect("80 MB were freed");
    // SAFETY: it is that long, and begins with what was written; it is not used afterwards.
    unsafe {
        assert!((0..SHORT).step_by(1000).all(|at| grown.add(at).read() == 7));
        cached::free(grown).expect("it is a block");
    }
    let block = block.expect("80 MB were freed");
    // It grows into a mapping, as others of its length do.
    let block = block.resize(2 * LONG);
    block.check();
    block.free();
    last.into_iter().for_each(Filled::free);
}
