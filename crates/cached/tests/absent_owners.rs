//! Remote frees do not wait for an owner that sleeps. A process of its own, because the test reads the process's
//! memory.

mod common;

use std::ptr::NonNull;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use common::{kept_idle, kept_waiting, measures, ready, resident};
use heapwright_cached::{self as cached, Measures};

/// A block whose pages have been written to.
struct Written(NonNull<u8>);

// SAFETY: the block belongs to the value.
unsafe impl Send for Written {}

impl Written {
    fn new(size: usize) -> Written {
        let block = cached::take(size).or_else(|| cached::allocate(size).ok()).expect("there is memory");
        for at in (0..size).step_by(4096) {
            // SAFETY: the block is that long, and new.
            unsafe { block.add(at).write(1) };
        }
        Written(block)
    }

    fn free(self) {
        // SAFETY: the block is freed with the value that it belongs to.
        unsafe {
            if !cached::give_any(self.0.as_ptr()) {
                cached::free(self.0).expect("it is a block");
            }
        }
    }
}

/// Sizes, and how many blocks of each.
type Sizes = &'static [(usize, usize)];

/// A thread that allocates when asked to and sleeps otherwise.
struct Sleeper {
    requests: Sender<(Vec<Written>, Sizes)>,
    blocks: Receiver<Vec<Written>>,
    thread: JoinHandle<()>,
}

impl Sleeper {
    /// Starts the thread; it has a heap of its own when this returns.
    fn start() -> Sleeper {
        let (requests, asked) = channel::<(Vec<Written>, Sizes)>();
        let (allocated, blocks) = channel();
        let thread = thread::spawn(move || {
            for (mut blocks, sizes) in asked {
                for &(size, count) in sizes {
                    blocks.extend((0..count).map(|_| Written::new(size)));
                }
                allocated.send(blocks).unwrap();
            }
        });
        let sleeper = Sleeper { requests, blocks, thread };
        sleeper.allocate(Vec::new(), &[(16, 1)]).into_iter().for_each(Written::free);
        sleeper
    }

    /// Has the thread allocate; the blocks come in the given vector, whose memory is not the heap's.
    fn allocate(&self, to: Vec<Written>, sizes: Sizes) -> Vec<Written> {
        self.requests.send((to, sizes)).unwrap();
        self.blocks.recv().unwrap()
    }

    fn end(self) {
        drop(self.requests);
        self.thread.join().unwrap();
    }
}

const MIB: usize = 1 << 20;

/// 111 MB: 37 MB in blocks of each of three sizes.
const SIZES: Sizes = &[(100, 370_000), (1 << 10, 36_000), (20 << 10, 1800)];

/// Room for the addresses of that number of blocks, in memory.
fn room() -> Vec<Written> {
    let mut room: Vec<_> = (0..450_000).map(|_| Written(NonNull::dangling())).collect();
    room.clear();
    room
}

#[test]
fn little_is_kept_for_owners_that_sleep() {
    ready();
    for shuffled in [false, true] {
        frees_for_a_sleeper(shuffled);
    }
    trims_for_a_sleeper();
    sends_little_at_once(if measures().have(Measures::QUARANTINE) { 12 * MIB } else { 2 * MIB });
}

/// Frees everything that a sleeping thread has allocated.
fn frees_for_a_sleeper(shuffled: bool) {
    let owner = Sleeper::start();
    let room = room();
    let before = resident();
    let mut blocks = owner.allocate(room, SIZES);
    if shuffled {
        fastrand::Rng::with_seed(12).shuffle(&mut blocks);
    }
    // What is asked for soon after it was given back would be kept for a second.
    thread::sleep(Duration::from_millis(1200));
    let full = resident() - before;
    assert!(full > 100 * MIB, "{full}");
    blocks.drain(..).for_each(Written::free);
    let left = resident().saturating_sub(before);
    println!("{left} bytes of {full} are left");
    assert!(
        left <= 5 * MIB + kept_waiting() + kept_idle(full),
        "{left} bytes of {full} are left, freed in any order: {shuffled}"
    );
    owner.end();
}

/// Frees most of what a sleeping thread has allocated, and trims.
fn trims_for_a_sleeper() {
    let owner = Sleeper::start();
    let room = room();
    let before = resident();
    let mut blocks = owner.allocate(room, &[(1 << 10, 48 << 10)]);
    let mut number = 0;
    let kept: Vec<_> = blocks.extract_if(.., |_| (number % 1000 == 0, number += 1).0).collect();
    blocks.drain(..).for_each(Written::free);
    cached::trim();
    let left = resident().saturating_sub(before);
    println!("{left} bytes are left for {} blocks", kept.len());
    assert!(left <= kept.len() * 8192 + MIB, "{left} bytes are left for {} blocks", kept.len());
    kept.into_iter().for_each(Written::free);
    owner.end();
}

/// Frees blocks of four sleeping threads by eight others, which sleep afterwards.
fn sends_little_at_once(most: usize) {
    let owners: Vec<_> = (0..4).map(|_| Sleeper::start()).collect();
    let (freed, all_freed) = channel();
    let freers: Vec<_> = (0..8)
        .map(|_| {
            let (to, blocks) = channel::<Vec<Written>>();
            let freed = freed.clone();
            let thread = thread::spawn(move || {
                Written::new(16).free();
                for blocks in blocks {
                    blocks.into_iter().for_each(Written::free);
                    freed.send(()).unwrap();
                }
            });
            to.send(vec![]).unwrap();
            (to, thread)
        })
        .collect();
    (0..8).for_each(|_| all_freed.recv().unwrap());
    let before = resident();
    let allocate = |_| owners.iter().flat_map(|owner| owner.allocate(Vec::new(), &[(32 << 10, 31)])).collect();
    let shares: [Vec<Written>; 8] = std::array::from_fn(allocate);
    thread::sleep(Duration::from_millis(1200));
    freers.iter().zip(shares).for_each(|((to, _), share)| to.send(share).unwrap());
    (0..8).for_each(|_| all_freed.recv().unwrap());
    let left = resident().saturating_sub(before);
    println!("{left} bytes are left with nothing live");
    assert!(left <= most, "{left} bytes are left with nothing live");
    for (to, thread) in freers {
        drop(to);
        thread.join().unwrap();
    }
    owners.into_iter().for_each(Sleeper::end);
}
