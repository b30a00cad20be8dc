//! A heap near a limit that was set by hand. A process of its own, because the limit is the process's.

mod common;

use common::{Filled, ready, resident};
use heapwright_cached::{self as cached, Measures};

const MIB: usize = 1 << 20;

/// Allocates blocks of `size` bytes.
fn allocate(size: usize, bytes: usize) -> Vec<Filled> {
    (0..bytes / size).map(|number| Filled::new(number as u64, size)).collect()
}

#[test]
fn a_heap_near_its_limit_purges_and_goes_on() {
    if common::measures() != Measures::NONE {
        return;
    }
    let limit = resident() + 96 * MIB;
    cached::set_limit(limit);
    ready();
    assert_eq!((cached::known_limit(), cached::times_scarce()), (Some(limit as u64), 0));
    let few = allocate(500, 30 * MIB);
    assert_eq!(cached::times_scarce(), 0, "far from the limit");
    // More than the limit: allocations succeed.
    let more = allocate(700, 100 * MIB);
    let times = cached::times_scarce();
    assert!((1..1000).contains(&times), "{times}");
    // Nothing is set aside for blocks that grow by little, though some of them have to move.
    let blocks: Vec<_> = (0..8).map(|_| cached::allocate(80_000).expect("there is memory")).collect();
    for block in blocks {
        // SAFETY: the block is used by its new address only, and not after it is freed.
        unsafe {
            let grown = cached::reallocate(block, 82_000).expect("there is memory");
            assert!(cached::usable_size(grown).is_some_and(|usable| usable < 82_000 + 4096));
            cached::free(grown).expect("it is a block");
        }
    }
    // What is freed beyond the limit is purged at once, a few pages excepted.
    let (in_use, purged) = (resident(), cached::page_returns().unwrap().bytes);
    more.into_iter().for_each(Filled::free);
    let (left, returned) = (resident(), cached::page_returns().unwrap().bytes - purged);
    assert!(in_use.saturating_sub(left) > 95 * MIB, "{in_use} before, {left} after");
    assert!(returned as usize > 95 * MIB, "{returned}");
    few.iter().for_each(Filled::check);
    println!("{times} times scarce, {returned} bytes purged");
    few.into_iter().for_each(Filled::free);
}
