//! Threads that live shortly: what an allocator makes for a thread, and takes down with it, is most of their life.

use std::thread;

use fastrand::Rng;

use crate::heap::{Block, Heap};
use crate::setup::Setup;

/// Lines of threads, each one after the other.
const LINES: usize = 4;
/// Threads in all.
const THREADS: usize = 6_000;
/// Blocks of each.
const BLOCKS: usize = 50;

/// Four threads at a time.
pub fn run(setup: &Setup) -> Result<(), String> {
    let threads = setup.times(THREADS).div_ceil(LINES);
    thread::scope(|scope| {
        for line in 0..LINES {
            scope.spawn(move || {
                for thread in 0..threads {
                    let seed = (line * threads + thread) as u64;
                    thread::spawn(move || live(Rng::with_seed(seed))).join().expect("a short life does not panic");
                }
            });
        }
    });
    Ok(())
}

fn live(mut rng: Rng) {
    let heap = Heap::of_this_process();
    let blocks: Vec<Block> = (0..BLOCKS).map(|_| heap.allocate(rng.usize(16..=512))).collect();
    blocks.into_iter().for_each(|block| heap.free(block));
}
