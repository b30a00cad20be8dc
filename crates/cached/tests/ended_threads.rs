//! Memory of threads that lived at the same time and have ended. A process of its own, for it looks at the whole of it.

mod common;

use std::sync::Barrier;
use std::thread;

use common::{Filled, ready, resident};
use heapwright_cached::Measures;
use heapwright_slabs::arena::ARENA;

const THREADS: u64 = 150;

/// Uses a few blocks of each of many sizes: a thread has a page or two of each then.
fn work(number: u64) {
    let blocks = (1..60).map(|size| Filled::new(number, size * 50));
    blocks.collect::<Vec<_>>().into_iter().for_each(Filled::free);
}

#[test]
fn of_many_threads_that_ended_few_leave_their_memory_to_the_next() {
    if common::measures() != Measures::NONE {
        return;
    }
    ready();
    Filled::new(0, 100).free();
    let before = resident();
    let barrier = Barrier::new(THREADS as usize + 1);
    let full = thread::scope(|scope| {
        let start = |number| {
            let barrier = &barrier;
            scope.spawn(move || {
                work(number);
                barrier.wait();
                barrier.wait();
            })
        };
        let threads: Vec<_> = (0..THREADS).map(start).collect();
        barrier.wait();
        let full = resident();
        barrier.wait();
        // The scope's end does not wait for what threads do at their ends.
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        full
    });
    let after = resident();
    assert!(full > before + 20_000_000, "{before} {full}");
    assert!(after - before < (full - before) / 3, "{before} {full} {after}");
    // However many heaps are idle now, the next threads leave their pages to one another.
    let purged = ARENA.purged();
    (0..THREADS).for_each(|number| thread::spawn(move || work(number)).join().unwrap());
    let more = ARENA.purged() - purged;
    assert!(more < (full - before) / 3, "{more} bytes were purged after threads that took turns, of {full}");
}
