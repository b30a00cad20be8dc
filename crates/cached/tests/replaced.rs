//! Long blocks that are replaced by others of other lengths leave holes that serve the next ones. These are not purged
//! in between. A process of its own, because the test counts what is purged.

mod common;

use std::ops::Range;
use std::ptr::NonNull;

use common::{purged, ready};
use heapwright_cached::{self as cached, Measures};

/// Some are live at a time, of more bytes than are retained where purged memory is used again, whatever is in use.
const LIVE: usize = 400;
const SIZES: Range<usize> = 500_000..1_500_000;

#[test]
fn holes_between_long_blocks_that_are_replaced_are_retained() {
    if common::measures() != Measures::NONE {
        return;
    }
    ready();
    let mut random = common::seeded(3);
    // No byte of them is written: what counts is where they lie.
    let allocate = |size: usize| cached::allocate(size).expect("there is memory");
    let mut blocks: Vec<NonNull<u8>> = (0..LIVE).map(|_| allocate(SIZES.start)).collect();
    let (mut allocated, mut before) = (0, 0);
    for round in 0..100 * LIVE {
        if round == 20 * LIVE {
            (allocated, before) = (0, purged());
        }
        // SAFETY: the block was just taken from those that are live.
        unsafe { cached::free(blocks.swap_remove(random.usize(..LIVE))) }.expect("it is a block");
        let size = random.usize(SIZES);
        blocks.push(allocate(size));
        allocated += size as u64;
    }
    let purged = purged() - before;
    println!("{purged} of {allocated} bytes were purged");
    assert!(purged < allocated / 40, "{purged} of {allocated} bytes");
}
