//! Regions of many stretches: in tests a stretch is 8192 granules long.

extern crate std;

use std::vec;
use std::vec::Vec;

use super::{stretch_of, stretches};
use crate::map::{Hole, words_for};
use crate::{BestFit, Block, BlockState, Engine, Fit, Generator, GoodFit, Rules, classes};

const GRANULES: usize = 100_000;

/// Returns where best fit places `len` granules, by a walk of the heap.
fn best(blocks: &[Block], len: usize) -> Option<usize> {
    let fits = |block: &&Block| block.state == BlockState::Free && block.size >= len * 16;
    blocks.iter().filter(fits).min_by_key(|block| (block.size, block.offset)).map(|block| block.offset)
}

/// Returns where good fit does: the wilderness, here the last hole, is taken only when no other is in the classes.
fn good(blocks: &[Block], len: usize) -> Option<usize> {
    let wanted = classes::class_that_holds(len);
    let class = |block: &Block| classes::class_of(block.size / 16);
    let (last, others) = blocks.split_last().unwrap();
    let fits = |block: &&Block| block.state == BlockState::Free && class(block) >= wanted;
    let found = others.iter().filter(fits).min_by_key(|block| (class(block), block.offset));
    found
        .or_else(|| Some(last).filter(|last| last.state == BlockState::Free && last.size >= len * 16))
        .map(|block| block.offset)
}

fn agrees<E: Engine>(mut heap: E, expected: fn(&[Block], usize) -> Option<usize>, seed: u64) {
    let (mut state, mut live) = (seed, Vec::new());
    let mut numbers = Generator(&mut state);
    for operation in 0..1500 {
        if numbers.below(2) == 0 || live.len() < 20 {
            let longest = if numbers.below(4) == 0 { 64 } else { 1500 };
            let len = 1 + numbers.below(longest);
            let blocks: Vec<Block> = heap.blocks().collect();
            let place = heap.allocate(len * 16, 1).ok();
            assert_eq!(place, expected(&blocks, len), "seed {seed}, operation {operation}");
            live.extend(place);
        } else {
            let at = numbers.below(live.len());
            heap.deallocate(live.swap_remove(at)).unwrap();
        }
        if operation % 50 == 0 {
            heap.check().unwrap();
        }
    }
    heap.check().unwrap();
}

#[test]
fn placements_are_the_same_in_many_stretches() {
    assert!(stretches(words_for(GRANULES)) > 10);
    assert_ne!(stretch_of(Hole { start: 8191, len: 1 }), stretch_of(Hole { start: 8192, len: 1 }));
    let rules = Rules::default();
    for seed in 1..if cfg!(miri) { 2 } else { 9 } {
        let mut metadata = vec![0; Fit::<BestFit>::metadata_cells(GRANULES * 16, &rules).unwrap()];
        agrees(Fit::<BestFit>::create(&mut metadata, GRANULES * 16, &rules).unwrap(), best, seed);
        let mut metadata = vec![0; Fit::<GoodFit>::metadata_cells(GRANULES * 16, &rules).unwrap()];
        agrees(Fit::<GoodFit>::create(&mut metadata, GRANULES * 16, &rules).unwrap(), good, seed);
    }
}
