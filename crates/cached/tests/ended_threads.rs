//! Memory of threads that lived at the same time and have ended. A process of its own, for it looks at the whole of it.

mod common;

use std::sync::Barrier;
use std::thread;

use common::{Filled, ready, resident};
use heapwright_cached::Measures;

const THREADS: u64 = 150;

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
                // A few blocks of each of many sizes: each thread has a page or two of each.
                let blocks = (1..60).map(|size| Filled::new(number, size * 50));
                blocks.collect::<Vec<_>>().into_iter().for_each(Filled::free);
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
}
