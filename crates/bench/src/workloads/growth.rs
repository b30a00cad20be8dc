//! Blocks that grow by realloc, as vectors and strings do.

use crate::heap::{Block, Heap};
use crate::setup::Setup;

/// How long the one block becomes at least, in bytes.
const LONG: usize = 64 << 20;
/// How often it grows.
const GROWTHS: usize = 4;

/// One block grows from 64 B to 64 MiB by 1.5, and what it gains is written to.
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

/// How many blocks grow in turns, how long each becomes, and how often all of them do.
const BLOCKS: usize = 1_000;
const SHORT: usize = 4096;
const TURNS: usize = 150;

/// Many blocks grow from 16 B to 4 KiB by 2, one step each before the next step of any.
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
