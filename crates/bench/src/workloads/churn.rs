//! Replaces random blocks of a live set by blocks of other sizes.

use std::thread;

use fastrand::Rng;

use crate::heap::{Block, Heap};
use crate::setup::{Setup, draw};

/// The number of blocks that all threads together replace.
const REPLACED: usize = 2_000_000;

/// Runs `threads` threads, each with `live` blocks of random sizes from `sizes`.
pub fn run(setup: &Setup, threads: usize, live: usize, sizes: &[u32]) -> Result<(), String> {
    let replaced = setup.times(REPLACED).div_ceil(threads);
    thread::scope(|scope| {
        for seed in 0..threads {
            scope.spawn(move || churn(live, replaced, sizes, Rng::with_seed(seed as u64)));
        }
    });
    Ok(())
}

fn churn(live: usize, replaced: usize, sizes: &[u32], mut rng: Rng) {
    let heap = Heap::of_this_process();
    let mut blocks: Vec<Block> = (0..live).map(|_| heap.allocate(draw(sizes, &mut rng))).collect();
    for _ in 0..replaced {
        let at = rng.usize(..live);
        let block = heap.allocate(draw(sizes, &mut rng));
        heap.free(std::mem::replace(&mut blocks[at], block));
    }
    blocks.into_iter().for_each(|block| heap.free(block));
}
