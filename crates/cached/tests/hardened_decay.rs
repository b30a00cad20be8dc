//! Long blocks that the hardened heap does not use any more go back to the system while the program goes on. A process
//! of its own, for its memory is looked at.

mod common;

use std::thread::sleep;
use std::time::{Duration, Instant};

use heapwright_cached as cached;
use heapwright_cached::Measures;

const STEP: Duration = Duration::from_millis(20);

fn pair(bytes: usize) {
    let block = cached::allocate(bytes).unwrap();
    // SAFETY: the block is not used.
    unsafe { cached::free(block).unwrap() };
}

/// Replaces blocks again and again, so that what is purged comes back soon and more is retained; frees all of them.
fn replace_blocks(random: &mut fastrand::Rng) {
    let mut blocks: Vec<_> = (0..100).map(|number| common::Filled::new(number, 2_000_000)).collect();
    for number in 0..2000 {
        let place = random.usize(..blocks.len());
        blocks.swap_remove(place).free();
        blocks.push(common::Filled::new(number, random.usize(32_768..4_000_000)));
    }
    blocks.into_iter().for_each(common::Filled::free);
}

#[test]
fn free_pages_decay() {
    cached::harden(Measures::GUARD.and(Measures::CANARY));
    cached::start().unwrap();
    pair(100_000);
    let before = common::resident();
    let mut random = fastrand::Rng::with_seed(3);
    let begin = Instant::now();
    loop {
        replace_blocks(&mut random);
        let retained = common::resident() - before;
        if retained > 16 << 20 {
            break;
        }
        // No page was needed again for some time before the blocks were freed: that is a matter of the clock.
        assert!(begin.elapsed() < Duration::from_secs(60), "{retained} bytes are retained at first");
    }
    let begin = Instant::now();
    while common::resident() > before + (4 << 20) {
        assert!(begin.elapsed() < Duration::from_secs(60), "{} bytes stay", common::resident() - before);
        pair(50_000);
        sleep(STEP);
    }
}
