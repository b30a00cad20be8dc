//! Memory of slabs of which all blocks are freed, in another order than theirs, is purged a few times, and retained
//! for longer after each, though the slabs that were purged have gone. A process of its own, because the test counts
//! what is purged.

mod common;

use std::thread::sleep;
use std::time::{Duration, Instant};

use common::{Filled, purged, ready};
use heapwright_cached::{self as cached, Measures, Purging};

const BLOCKS: usize = 30_000;
const SIZE: usize = 80;
const ALL: u64 = (BLOCKS * SIZE) as u64;

/// Memory that is needed again later than this after it was purged was purged rightly.
const SOON: Duration = Duration::from_millis(100);

/// Allocates blocks and frees them in another order, again and again. Returns the bytes that were purged each time, and
/// the time that all of it took; `None` where once took so long that what was purged was not needed again soon.
fn swing(random: &mut fastrand::Rng) -> Option<([u64; 24], Duration)> {
    let begin = Instant::now();
    let mut longest = Duration::ZERO;
    let swings = [(); 24].map(|()| {
        let (before, begin) = (purged(), Instant::now());
        let mut blocks: Vec<_> = (0..BLOCKS).map(|number| Filled::new(number as u64, SIZE)).collect();
        random.shuffle(&mut blocks);
        blocks.into_iter().for_each(Filled::free);
        longest = longest.max(begin.elapsed());
        purged() - before
    });
    (longest < SOON).then(|| (swings, begin.elapsed()))
}

#[test]
fn memory_of_which_nothing_stays_is_retained() {
    if common::measures() != Measures::NONE {
        return;
    }
    cached::set_purging(Purging::Never);
    ready();
    let mut random = common::seeded(1);
    let again = |random: &mut fastrand::Rng| {
        // What is retained because of the try before is forgotten.
        sleep(Duration::from_secs(2));
        swing(random)
    };
    let measured = swing(&mut random).or_else(|| (0..20).find_map(|_| again(&mut random)));
    let (swings, elapsed) = measured.expect("the machine has some time for the test");
    println!("purged in each swing: {swings:?}");
    assert!(swings[0] > ALL / 4, "{swings:?}");
    // One at first, and others after 0.2, 0.4 and 0.8 seconds and 1.6 each from then on, in which memory is retained.
    let (elapsed, mut most, mut end, mut hold) = (elapsed.as_millis(), 1, 200, 400);
    while end <= elapsed {
        (most, end, hold) = (most + 1, end + hold, (2 * hold).min(1600));
    }
    let purges = swings.iter().filter(|&&bytes| bytes > ALL / 16).count();
    assert!(purges <= most, "{swings:?}, of which {most} may be");
}
