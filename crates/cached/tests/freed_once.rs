//! A long block that is freed once, and one that is needed again. A process of its own, for it looks at the whole.

mod common;

use std::thread::sleep;
use std::time::Duration;

use common::{Filled, ready, resident};
use heapwright_cached::Measures;

/// Longer than the blocks that a thread's cache takes, and shorter than what a process retains that needs it again.
const LONG: usize = 600 << 10;

#[test]
fn a_long_block_goes_back_to_the_system_until_it_is_needed_again() {
    if common::measures() != Measures::NONE {
        return;
    }
    ready();
    Filled::new(0, 100).free();
    let before = resident();
    let after = |number| {
        Filled::new(number, LONG).free();
        resident()
    };
    let once = after(1);
    assert!(once < before + LONG / 2, "{before} {once}");
    // Memory counts as needed again when it is so within 100 ms, which a machine that is busy may miss.
    assert!((2..100).any(|number| after(number) > before + LONG * 3 / 4), "{before}");
    // From then on it stays.
    assert!((0..100).all(|number| after(number) > before + LONG * 3 / 4), "{before} {}", resident());
    // Also when it was not needed for longer than that, and more is free then.
    sleep(Duration::from_millis(200));
    after(0);
    Filled::new(1, LONG + (100 << 10)).free();
    assert!(resident() > before + LONG * 3 / 4, "{before} {}", resident());
}
