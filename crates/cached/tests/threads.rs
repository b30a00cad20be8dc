//! Blocks that go from thread to thread, and threads that come and go.

mod common;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Barrier, Mutex};
use std::thread;

use common::{Filled, any_size, ready, seeded};

#[test]
fn blocks_go_from_thread_to_thread() {
    ready();
    const SLOTS: usize = 512;
    let slots: Vec<Mutex<Option<Filled>>> = (0..SLOTS).map(|_| Mutex::new(None)).collect();
    for generation in 0..6 {
        thread::scope(|scope| {
            for seed in 0..4 {
                let slots = &slots;
                scope.spawn(move || {
                    let mut random = seeded(generation * 100 + seed);
                    for number in 0..30_000 {
                        let size = any_size(&mut random).min(5000);
                        let new = (random.u32(0..4) != 0).then(|| Filled::new(number, size));
                        let old = std::mem::replace(&mut *slots[random.usize(..SLOTS)].lock().unwrap(), new);
                        if let Some(block) = old {
                            block.free();
                        }
                    }
                });
            }
        });
    }
    slots.into_iter().filter_map(|slot| slot.into_inner().unwrap()).for_each(Filled::free);
}

fn consume(blocks: Receiver<Vec<Filled>>) {
    blocks.into_iter().flatten().for_each(Filled::free);
}

fn produce(to: &Sender<Vec<Filled>>, seed: u64) {
    let mut random = seeded(seed);
    for round in 0..300 {
        let batch = (0..100).map(|number| Filled::new(round * 100 + number, any_size(&mut random).min(2000)));
        to.send(batch.collect()).unwrap();
    }
}

#[test]
fn what_one_thread_allocates_another_frees() {
    ready();
    let (to, blocks) = channel();
    thread::scope(|scope| {
        scope.spawn(move || consume(blocks));
        for seed in 0..2 {
            let to = to.clone();
            scope.spawn(move || produce(&to, seed));
        }
        drop(to);
    });
}

#[test]
fn blocks_outlive_their_threads() {
    ready();
    let mut kept = Vec::new();
    for generation in 0..300 {
        let made = thread::spawn(move || (0..50).map(|n| Filled::new(n, 40 + n as usize * 10)).collect::<Vec<_>>());
        kept.extend(made.join().unwrap());
        if generation % 3 == 0 {
            kept.drain(..kept.len() / 2).for_each(Filled::free);
        }
    }
    kept.into_iter().for_each(Filled::free);
}

#[test]
fn threads_that_free_at_once_what_one_made() {
    ready();
    const THREADS: usize = 8;
    for round in 0..20 {
        let mut shares: Vec<Vec<Filled>> = (0..THREADS).map(|_| Vec::new()).collect();
        for number in 0..8_000 {
            shares[number as usize % THREADS].push(Filled::new(number, 16 + (number as usize * round) % 300));
        }
        let barrier = Barrier::new(THREADS);
        thread::scope(|scope| {
            for share in shares {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    share.into_iter().for_each(Filled::free);
                });
            }
        });
    }
}

#[test]
fn threads_come_and_go_while_blocks_are_passed_on() {
    ready();
    const SLOTS: usize = 128;
    let slots: Vec<Mutex<Option<Filled>>> = (0..SLOTS).map(|_| Mutex::new(None)).collect();
    let live = |seed| {
        let mut random = seeded(seed);
        for number in 0..200 {
            // Few sizes, so that slabs are taken from heaps that were left.
            let new = Filled::new(number, 400 << random.u32(0..6));
            let old = slots[random.usize(..SLOTS)].lock().unwrap().replace(new);
            old.into_iter().for_each(Filled::free);
        }
    };
    thread::scope(|scope| {
        for starter in 0..3 {
            let live = &live;
            scope.spawn(move || {
                (0..40).for_each(|life| {
                    thread::scope(|inner| {
                        inner.spawn(move || live(starter * 100 + life));
                    })
                })
            });
        }
    });
    slots.into_iter().filter_map(|slot| slot.into_inner().unwrap()).for_each(Filled::free);
}
