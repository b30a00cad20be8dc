//! Grows blocks by realloc, as vectors and strings do.

use crate::heap::{Block, Heap};
use crate::setup::Setup;

/// The final size of the single block, at least, in bytes.
const LONG: usize = 64 << 20;
/// The number of times that a block grows from start to end.
const GROWTHS: usize = 4;

/// Grows one block from 64 B to 64 MiB by a factor of 1.5, and writes to the new part each time.
pub fn one(setup: &Setup) -> Result<(), String> {
    let heap = Heap::of_this_process();
    for _ in 0..setup.times(GROWTHS) {
        let mut block = heap.allocate(64);
        while block.bytes() < LONG {
            let before = block.bytes();
            block = heap.resize(block, before + before / 2);
            block.touch_pages(before);
        }
        heap.free(block);
    }
    Ok(())
}

/// The number of blocks that grow in turns, the final size of each in bytes, and the number of repetitions.
const BLOCKS: usize = 1_000;
const SHORT: usize = 4096;
const TURNS: usize = 150;

/// Grows many blocks from 16 B to 4 KiB by a factor of 2; all take a step before any takes the next.
pub fn many(setup: &Setup) -> Result<(), String> {
    let heap = Heap::of_this_process();
    for _ in 0..setup.times(TURNS) {
        let mut blocks: Vec<Block> = (0..BLOCKS).map(|_| heap.allocate(16)).collect();
        for step in 5..=SHORT.ilog2() {
            blocks = blocks.into_iter().map(|block| grown(heap, block, 1 << step)).collect();
        }
        blocks.into_iter().for_each(|block| heap.free(block));
    }
    Ok(())
}

fn grown(heap: Heap, block: Block, bytes: usize) -> Block {
    let mut block = heap.resize(block, bytes);
    block.write(bytes - 1, 1);
    block
}
