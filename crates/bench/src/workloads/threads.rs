//! Short-lived threads: most of their time is the setup and teardown of the thread cache.

use std::thread;

use fastrand::Rng;

use crate::heap::{Block, Heap};
use crate::setup::Setup;

/// The number of threads at a time.
const CONCURRENT: usize = 4;
/// The number of threads in total.
const THREADS: usize = 6_000;
/// The number of blocks per thread.
const BLOCKS: usize = 50;

/// Runs short-lived threads, four at a time.
pub fn run(setup: &Setup) -> Result<(), String> {
    let threads = setup.times(THREADS).div_ceil(CONCURRENT);
    thread::scope(|scope| {
        for lane in 0..CONCURRENT {
            scope.spawn(move || {
                for thread in 0..threads {
                    let seed = (lane * threads + thread) as u64;
                    thread::spawn(move || allocate_and_free(Rng::with_seed(seed)))
                        .join()
                        .expect("allocating and freeing does not panic");
                }
            });
        }
    });
    Ok(())
}

fn allocate_and_free(mut rng: Rng) {
    let heap = Heap::of_this_process();
    let blocks: Vec<Block> = (0..BLOCKS).map(|_| heap.allocate(rng.usize(16..=512))).collect();
    blocks.into_iter().for_each(|block| heap.free(block));
}
