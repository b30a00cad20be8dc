//! What threads do not use goes back to the system while others allocate. A process of its own, because the test reads
//! the process's memory and changes how it decays.

mod common;

use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use common::{Filled, ready, resident};
use heapwright_cached::{self as cached, Measures, Purging};

const MIB: usize = 1 << 20;

/// The time after which the test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Fills lists until the process has less than `most` bytes in memory; returns whether it comes to that.
fn shrinks_below(most: usize) -> bool {
    let begin = Instant::now();
    while resident() >= most {
        if begin.elapsed() > PATIENCE {
            return false;
        }
        let blocks: Vec<_> = (0..2000).map(|number| Filled::new(number, 100)).collect();
        blocks.into_iter().for_each(Filled::free);
    }
    true
}

/// Allocates and frees several times, so that what is purged is asked for again at once, and therefore retained.
fn allocate_and_free(sizes: &[usize], bytes: usize) {
    /// The list of the blocks is not this heap's, and stays short.
    const MOST: usize = 20_000;
    for _ in 0..6 {
        for &size in sizes {
            let blocks: Vec<_> = (0..MOST.min(bytes / size)).map(|number| Filled::new(number as u64, size)).collect();
            blocks.into_iter().for_each(Filled::free);
        }
    }
}

#[test]
fn unused_memory_decays_while_a_thread_allocates() {
    if common::measures() != Measures::NONE {
        return;
    }
    cached::set_purging(Purging::After(Duration::from_millis(20)));
    ready();
    assert!(shrinks_below(usize::MAX));
    let before = resident();
    // Of a thread that sleeps afterwards: idle pages of slabs, and blocks in its cache of long ones.
    let (done, is_done) = channel();
    let (end, ends) = channel::<()>();
    let sleeper = thread::spawn(move || {
        allocate_and_free(&[48, 900, 3000, 20_000, 100_000], 24 * MIB);
        done.send(()).unwrap();
        let _ = ends.recv();
    });
    is_done.recv().unwrap();
    let kept = resident().saturating_sub(before);
    assert!(shrinks_below(before + 4 * MIB), "{} of {kept} bytes stay", resident() - before);
    // Of the thread itself, and holes of the arena.
    allocate_and_free(&[200, 5000, 100_000], 24 * MIB);
    let own = resident().saturating_sub(before);
    assert!(shrinks_below(before + 4 * MIB), "{} of {own} bytes stay", resident() - before);
    println!("{kept} and {own} bytes decayed");
    end.send(()).unwrap();
    sleeper.join().unwrap();
}
