//! Memory of slabs of which all blocks are freed, in another order than theirs, is purged a few times, and retained
//! from then on, though the slabs that were purged have gone. A process of its own, because the test counts what is
//! purged.

mod common;

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
    let swings = [(); 8].map(|()| {
        let before = purged();
        let mut blocks: Vec<_> = (0..BLOCKS).map(|number| Filled::new(number as u64, SIZE)).collect();
        random.shuffle(&mut blocks);
        blocks.into_iter().for_each(Filled::free);
        purged() - before
    });
    println!("purged in each swing: {swings:?}");
    assert!(swings[0] > ALL / 4, "{swings:?}");
    assert!(swings[4..].iter().sum::<u64>() < ALL / 2, "{swings:?}");
}
