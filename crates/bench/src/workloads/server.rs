//! A server with short-lived threads: each takes over the blocks of the thread before, replaces random ones, and exits.
//! Many frees are remote frees, also known as blocks bleeding from thread to thread.

use std::thread;

use fastrand::Rng;

use crate::heap::{Block, Heap};
use crate::setup::Setup;

/// The number of live blocks, which are passed from thread to thread.
const LIVE: usize = 1_000;
/// The number of blocks that a thread replaces.
const REPLACED: usize = 10_000;
/// The number of threads in total.
const THREADS: usize = 400;
/// The bounds of the request sizes, in bytes.
const LEAST: usize = 10;
const MOST: usize = 500;

/// Runs `threads` threads at a time.
pub fn run(setup: &Setup, threads: usize) -> Result<(), String> {
    let successive = setup.times(THREADS).div_ceil(threads);
    thread::scope(|scope| {
        for seed in 0..threads {
            scope.spawn(move || run_successive(successive, seed as u64));
        }
    });
    Ok(())
}

/// Runs `threads` threads one after the other.
fn run_successive(threads: usize, seed: u64) {
    let (heap, mut rng) = (Heap::of_this_process(), Rng::with_seed(seed));
    let mut blocks: Vec<Block> = (0..LIVE).map(|_| heap.allocate(rng.usize(LEAST..=MOST))).collect();
    for _ in 0..threads {
        let mut rng = rng.fork();
        let thread = thread::spawn(move || {
            replace(&mut blocks, &mut rng);
            blocks
        });
        blocks = thread.join().expect("replacing blocks does not panic");
    }
    blocks.into_iter().for_each(|block| heap.free(block));
}

fn replace(blocks: &mut [Block], rng: &mut Rng) {
    let heap = Heap::of_this_process();
    for _ in 0..REPLACED {
        let at = rng.usize(..blocks.len());
        let block = heap.allocate(rng.usize(LEAST..=MOST));
        heap.free(std::mem::replace(&mut blocks[at], block));
    }
}
