//! Memory of slabs of which all blocks are freed, in another order than theirs, is purged a few times, and retained
//! for longer after each, though the slabs that were purged have gone. A process of its own, because the test counts
//! what is purged.

mod common;

use std::time::Instant;

use common::{Filled, purged, ready};
use heapwright_cached::{self as cached, Measures, Purging};

const BLOCKS: usize = 300_000;
const SIZE: usize = 80;
const ALL: u64 = (BLOCKS * SIZE) as u64;

#[test]
fn memory_of_which_nothing_stays_is_retained() {
    if common::measures() != Measures::NONE {
        return;
    }
    cached::set_purging(Purging::Never);
    ready();
    let mut random = common::seeded(1);
    let begin = Instant::now();
    let swings = [(); 12].map(|()| {
        let before = purged();
        let mut blocks: Vec<_> = (0..BLOCKS).map(|number| Filled::new(number as u64, SIZE)).collect();
        random.shuffle(&mut blocks);
        blocks.into_iter().for_each(Filled::free);
        purged() - before
    });
    println!("purged in each swing: {swings:?}");
    assert!(swings[0] > ALL / 4, "{swings:?}");
    // One at first, and others after 0.2, 0.4 and 0.8 seconds and 1.6 each from then on, in which memory is retained.
    let (elapsed, mut most, mut end, mut hold) = (begin.elapsed().as_millis(), 1, 200, 400);
    while end <= elapsed {
        (most, end, hold) = (most + 1, end + hold, (2 * hold).min(1600));
    }
    let purges = swings.iter().filter(|&&bytes| bytes > ALL / 16).count();
    assert!(purges <= most, "{swings:?}, of which {most} may be");
}
