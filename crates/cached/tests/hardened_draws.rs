//! Where the next block lies under random choices: among how many places, and whether all of them are as likely. A
//! process of its own, for the measures are its.

use std::collections::BTreeMap;

use heapwright_cached::{self as cached, Measures};

/// Returns how often each address is returned to a program that allocates a block and frees it, again and again.
fn draws(size: usize, pairs: usize) -> BTreeMap<usize, usize> {
    let mut counts = BTreeMap::new();
    for _ in 0..pairs {
        let block = cached::allocate(size).expect("there is memory");
        *counts.entry(block.addr().get()).or_insert(0) += 1;
        // SAFETY: the block is not used any more.
        unsafe { cached::free(block) }.expect("it is a block");
    }
    counts
}

#[test]
fn the_next_block_is_any_of_32_or_of_as_many_as_a_slab_has() {
    cached::harden(Measures::RANDOM);
    cached::start().expect("there is memory");
    const PAIRS: usize = 64_000;
    for size in [16, 100, 500, 1000, 1500, 3000, 6000, 12_000, 20_000, 30_000] {
        let choices = (60_000 / size).min(32);
        // The first are drawn from slabs, those that follow from the thread's cache.
        for pairs in [PAIRS, PAIRS] {
            let counts = draws(size, pairs);
            assert!(counts.len() >= choices, "{size}: {} places", counts.len());
            let most = counts.values().max().copied().unwrap_or(0);
            assert!(most * choices < pairs * 5 / 4, "{size}: one of {choices} places {most} times of {pairs}");
        }
        // A thread with a cache of its own draws from slabs at first: two in a row agree as rarely.
        let first = |_| std::thread::spawn(move || *draws(size, 1).first_key_value().expect("a draw").0);
        let firsts: Vec<usize> = (0..400).map(first).map(|thread| thread.join().expect("no panic")).collect();
        let same = firsts.windows(2).filter(|pair| pair[0] == pair[1]).count();
        assert!(same * choices < 400 * 2 + 8 * choices, "{size}: {same} of 400 threads draw what the one before drew");
    }
}
