//! Memory that threads leave and others free is given back. A process of its own, for it looks at the whole of it.

mod common;

use std::thread;

use common::{Filled, ready};

#[test]
fn what_is_freed_for_threads_that_ended_goes_back_to_the_system() {
    ready();
    Filled::new(0, 100).free();
    let before = common::resident();
    let made = || (0..40_000).map(|number| Filled::new(number, 200)).collect::<Vec<_>>();
    let makers: Vec<_> = (0..4).map(|_| thread::spawn(made)).collect();
    let blocks: Vec<_> = makers.into_iter().flat_map(|maker| maker.join().unwrap()).collect();
    let full = common::resident() - before;
    assert!(full > 32 << 20, "{full}");
    blocks.into_iter().for_each(Filled::free);
    let left = common::resident().saturating_sub(before);
    assert!(left < full / 4, "{left} of {full} bytes are left");
}
