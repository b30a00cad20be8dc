//! Replaces large blocks and writes to them. Most of the cost is the first touch of fresh pages.

use fastrand::Rng;

use crate::heap::{Block, Heap};
use crate::setup::{Setup, draw, log_uniform};

/// The number of live blocks.
const LIVE: usize = 32;
/// The number of blocks that are replaced.
const REPLACED: usize = 800;

/// Replaces random blocks of 64 KiB to 8 MiB.
pub fn run(setup: &Setup) -> Result<(), String> {
    let (heap, mut rng) = (Heap::of_this_process(), Rng::with_seed(1));
    let sizes = log_uniform(64 << 10, 8 << 20);
    let allocate = |rng: &mut Rng| {
        let mut block = heap.allocate(draw(&sizes, rng));
        block.touch_pages(0);
        block
    };
    let mut blocks: Vec<Block> = (0..LIVE).map(|_| allocate(&mut rng)).collect();
    for _ in 0..setup.times(REPLACED) {
        let at = rng.usize(..LIVE);
        let block = allocate(&mut rng);
        heap.free(std::mem::replace(&mut blocks[at], block));
    }
    blocks.into_iter().for_each(|block| heap.free(block));
    Ok(())
}
