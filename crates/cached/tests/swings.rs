//! Memory of slabs that goes up and down is purged a few times, and retained from then on. A process of its own,
//! because the test counts what is purged.

mod common;

use common::{Filled, purged, ready};
use heapwright_cached::{self as cached, Measures, Purging};

/// Pages of a block each, in a slab of its class; one block in 16 stays.
const BLOCKS: usize = 20_000;
const SIZE: usize = 4096;
const STAYS: usize = 16;

/// The bytes that nearly all blocks take: more than the half of the slabs that a process of several threads retains
/// anyway.
const SWING: u64 = (BLOCKS * SIZE * (STAYS - 1) / STAYS) as u64;

#[test]
fn memory_that_is_needed_again_is_retained() {
    if common::measures() != Measures::NONE {
        return;
    }
    cached::set_purging(Purging::Never);
    cached::turn_dissolving_off();
    ready();
    let mut blocks: Vec<Option<Filled>> = (0..BLOCKS).map(|_| None).collect();
    let swings = [(); 8].map(|()| {
        let before = purged();
        for (number, block) in blocks.iter_mut().enumerate() {
            block.get_or_insert_with(|| Filled::new(number as u64, SIZE));
        }
        for (_, block) in blocks.iter_mut().enumerate().filter(|(number, _)| !number.is_multiple_of(STAYS)) {
            block.take().into_iter().for_each(Filled::free);
        }
        purged() - before
    });
    println!("purged in each swing: {swings:?}");
    assert!(swings[0] > SWING / 2, "{swings:?}");
    assert!(swings[4..].iter().sum::<u64>() < SWING / 4, "{swings:?}");
}
