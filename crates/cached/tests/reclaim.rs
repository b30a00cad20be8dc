//! Threads reclaim remote frees for one another while the owners sleep, wake up and allocate.

mod common;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use common::{Filled, ready, seeded};
use heapwright_cached as cached;

const FREERS: usize = 3;

/// Allocates in bursts and sleeps in between; most blocks are freed by other threads.
fn own(seed: u64, to: &[Sender<Filled>]) {
    let mut random = seeded(seed);
    let mut kept = Vec::new();
    for burst in 0..40 {
        for number in 0..600 {
            let size = [24, 100, 500, 1024, 5000, 20_000][random.usize(0..6)];
            let block = Filled::new(burst * 1000 + number, size);
            match random.u32(0..8) {
                0 => kept.push(block),
                1 => block.free(),
                _ => to[random.usize(0..FREERS)].send(block).unwrap(),
            }
        }
        kept.drain(..kept.len() / 2).for_each(Filled::free);
        if burst % 4 == 0 {
            thread::sleep(Duration::from_millis(2));
        }
    }
    kept.into_iter().for_each(Filled::free);
}

/// Sets a flag when it is dropped, also by a failure.
struct Ending<'f>(&'f AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Trims and takes a census, again and again.
fn look(ended: &AtomicBool) {
    while !ended.load(Relaxed) {
        cached::trim();
        assert!(cached::census().is_some());
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn blocks_keep_their_contents_while_others_reclaim() {
    ready();
    static ENDED: AtomicBool = AtomicBool::new(false);
    let looker = thread::spawn(|| look(&ENDED));
    let ending = Ending(&ENDED);
    let (to, freers): (Vec<_>, Vec<_>) = (0..FREERS)
        .map(|_| {
            let (to, blocks) = channel::<Filled>();
            (to, thread::spawn(move || blocks.into_iter().for_each(Filled::free)))
        })
        .unzip();
    let owners = [0, 1, 2].map(|seed| {
        let to = to.clone();
        thread::spawn(move || own(seed, &to))
    });
    drop(to);
    owners.into_iter().chain(freers).for_each(|thread| thread.join().unwrap());
    drop(ending);
    looker.join().unwrap();
    cached::trim();
    if common::measures() == cached::Measures::NONE {
        assert_eq!(cached::page_counters().unwrap().live, 0);
    }
}
