//! Long blocks of a thread that meets another at the page heap. A process of its own: the threads are known.

mod common;

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use common::{Filled, ready};
use heapwright_cached::Measures;
use heapwright_slabs::arena::ARENA;

const LENGTH: usize = 100 << 10;

/// Returns the bytes in the calling thread's cache after it has allocated and freed 30 long blocks.
fn kept() -> usize {
    let blocks: Vec<_> = (0..30).map(|number| Filled::new(number, LENGTH)).collect();
    blocks.into_iter().for_each(Filled::free);
    heapwright_slabs::thread::heap().owned().unwrap().long_cache().figures().1
}

#[test]
fn a_thread_that_meets_another_keeps_more() {
    if common::measures() != Measures::NONE {
        return;
    }
    ready();
    let alone = kept();
    assert!((LENGTH..=1 << 20).contains(&alone), "{alone}");
    let is_held = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            let arena = ARENA.lock();
            is_held.wait();
            // For as long as the other takes to ask for blocks that its cache does not have.
            thread::sleep(Duration::from_millis(200));
            drop(arena);
        });
        is_held.wait();
        Filled::new(0, 400 << 10).free();
    });
    let met = kept();
    assert!(met > 5 << 18, "{alone} {met}");
}
