//! Producers allocate, consumers free: every free is a remote free.

use std::array;
use std::sync::mpsc::sync_channel;
use std::thread;

use fastrand::Rng;

use crate::heap::{Block, Heap};
use crate::setup::Setup;

/// The number of blocks per message, large enough to make the cost of the queue small.
const BATCH: usize = 64;
/// The capacity of the queue, in batches.
const QUEUED: usize = 32;
/// The number of batches of all producers.
const BATCHES: usize = 40_000;

/// Runs `couples` producers, each with a consumer.
pub fn run(setup: &Setup, couples: usize) -> Result<(), String> {
    let batches = setup.times(BATCHES).div_ceil(couples);
    thread::scope(|scope| {
        for seed in 0..couples {
            let (sender, receiver) = sync_channel::<[Block; BATCH]>(QUEUED);
            scope.spawn(move || {
                let (heap, mut rng) = (Heap::of_this_process(), Rng::with_seed(seed as u64));
                for _ in 0..batches {
                    let batch = array::from_fn(|_| heap.allocate(rng.usize(16..=256)));
                    assert!(sender.send(batch).is_ok(), "the consumer receives every batch");
                }
            });
            scope.spawn(move || {
                let heap = Heap::of_this_process();
                receiver.into_iter().flatten().for_each(|block| heap.free(block));
            });
        }
    });
    Ok(())
}
