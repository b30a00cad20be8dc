//! A server as threads come and go: each takes over the blocks of the one before, replaces random ones, and ends. Blocks bleed from thread
//! to thread: most are freed by another thread than the one that allocated them.

use std::thread;

use fastrand::Rng;

use crate::heap::{Block, Heap};
use crate::setup::Setup;

/// Blocks that are handed on.
const LIVE: usize = 1_000;
/// Blocks that a thread replaces in its life.
const LIFE: usize = 10_000;
/// All lives of all threads.
const LIVES: usize = 400;
/// Bytes that a request is for: the least and the most.
const LEAST: usize = 10;
const MOST: usize = 500;

/// So many threads at a time.
pub fn run(setup: &Setup, threads: usize) -> Result<(), String> {
    let lives = setup.times(LIVES).div_ceil(threads);
    thread::scope(|scope| {
        for seed in 0..threads {
            scope.spawn(move || line(lives, seed as u64));
        }
    });
    Ok(())
}

/// Threads one after the other.
fn line(lives: usize, seed: u64) {
    let (heap, mut rng) = (Heap::of_this_process(), Rng::with_seed(seed));
    let mut blocks: Vec<Block> = (0..LIVE).map(|_| heap.allocate(rng.usize(LEAST..=MOST))).collect();
    for _ in 0..lives {
        let mut rng = rng.fork();
        let life = thread::spawn(move || {
            replace(&mut blocks, &mut rng);
            blocks
        });
        blocks = life.join().expect("replacing blocks does not panic");
    }
    blocks.into_iter().for_each(|block| heap.free(block));
}

fn replace(blocks: &mut [Block], rng: &mut Rng) {
    let heap = Heap::of_this_process();
    for _ in 0..LIFE {
        let at = rng.usize(..blocks.len());
        let block = heap.allocate(rng.usize(LEAST..=MOST));
        heap.free(std::mem::replace(&mut blocks[at], block));
    }
}
