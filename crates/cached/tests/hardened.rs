//! The hardened heap by itself: what a census says of it, and where it puts blocks. A process of its own, for the
//! measures are its.

mod common;

use std::collections::BTreeSet;

use common::Filled;
use heapwright_cached::{self as cached, Measures};

/// Bytes and blocks that the program has, as a census sees it: of classes, then of its own pages.
fn used() -> (usize, usize, usize, usize) {
    let census = cached::census().unwrap();
    let (bytes, blocks) =
        census.classes().fold((0, 0), |(bytes, blocks), class| (bytes + class.used * class.size, blocks + class.used));
    (bytes, blocks, census.long_bytes(), census.long_blocks())
}

#[test]
fn a_census_knows_what_the_program_has_and_what_waits() {
    cached::harden(Measures::GUARD.and(Measures::RANDOM).and(Measures::QUARANTINE).and(Measures::ZERO));
    cached::start().unwrap();
    assert_eq!(used(), (0, 0, 0, 0));
    let mut short: Vec<_> = (0..5_000).map(|number| Filled::new(number, 100)).collect();
    let mut long: Vec<_> = (0..10).map(|number| Filled::new(number, 100_000)).collect();
    assert_eq!(used(), (5_000 * 112, 5_000, 10 * 102_400, 10));
    short.drain(..600).for_each(Filled::free);
    long.drain(..3).for_each(Filled::free);
    assert_eq!(used(), (4_400 * 112, 4_400, 7 * 102_400, 7));

    // What waits is not used again, and what comes next does not follow what came last.
    let waiting: BTreeSet<_> = short.drain(..600).map(|block| (block.address(), block.free()).0).collect();
    let next: Vec<_> = (0..600).map(|number| Filled::new(number, 100)).collect();
    assert!(next.iter().all(|block| !waiting.contains(&block.address())));
    let steps = next.windows(2).filter(|pair| pair[1].address() == pair[0].address() + 112).count();
    assert!(steps < 60, "{steps} of 600 blocks follow one another");

    next.into_iter().chain(short).chain(long).for_each(Filled::free);
    assert!(cached::trim() > 0);
    assert_eq!(used(), (0, 0, 0, 0));
    assert_eq!(cached::page_counters().unwrap().live, 0, "pages are lost");
}
