//! Producers allocate, consumers free: no block is freed by the thread that allocated it.

use std::array;
use std::sync::mpsc::sync_channel;
use std::thread;

use fastrand::Rng;

use crate::heap::{Block, Heap};
use crate::setup::Setup;

/// Blocks that are handed over at a time, so that the queue itself costs little.
const BATCH: usize = 64;
/// Batches on their way at most.
const WAITING: usize = 32;
/// All batches.
const BATCHES: usize = 40_000;

/// So many producers, each with a consumer.
pub fn run(setup: &Setup, couples: usize) -> Result<(), String> {
    let batches = setup.times(BATCHES).div_ceil(couples);
    thread::scope(|scope| {
        for seed in 0..couples {
            let (sender, receiver) = sync_channel::<[Block; BATCH]>(WAITING);
            scope.spawn(move || {
                let (heap, mut rng) = (Heap::of_this_process(), Rng::with_seed(seed as u64));
                for _ in 0..batches {
                    let batch = array::from_fn(|_| heap.allocate(rng.usize(16..=256)));
                    assert!(sender.send(batch).is_ok(), "the consumer takes all that there are");
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
