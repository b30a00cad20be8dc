//! Memory between bursts. A process of its own, for it looks at the whole of it.

mod common;

use std::thread::sleep;
use std::time::Duration;

use common::{Filled, ready, resident};
use heapwright_cached::Measures;

const MIB: usize = 1 << 20;

/// What a burst frees is needed again by the next one, but a page fault in a quarter of a second costs less than a page
/// that is kept for as long.
#[test]
fn what_a_burst_frees_is_not_kept_for_the_next_one() {
    if common::measures() != Measures::NONE {
        return;
    }
    ready();
    let burst = || {
        let blocks: Vec<_> = (0..320).map(|number| Filled::new(number, 100_000)).collect();
        let full = resident();
        blocks.into_iter().for_each(Filled::free);
        full
    };
    let before = resident();
    for _ in 0..8 {
        assert!(burst() > before + 30 * MIB);
        let after = resident();
        assert!(after < before + 6 * MIB, "{before} {after}");
        sleep(Duration::from_millis(250));
    }
}
