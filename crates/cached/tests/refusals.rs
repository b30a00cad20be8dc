//! A system that refuses memory.

mod common;

use common::{Filled, ready};
use heapwright_cached as cached;
use heapwright_os::refusals;

#[test]
fn a_system_that_refuses_costs_nothing_but_the_request() {
    ready();
    let mut refused = 0;
    for granted in 0..12 {
        let mut blocks = Vec::new();
        refusals::after(granted, || {
            for number in 0..40 {
                let size = (200 << 10) << (number % 8);
                match cached::allocate(size) {
                    Ok(block) => blocks.push(Filled::over(block, number, size, 16)),
                    Err(cached::OutOfMemory) => refused += 1,
                }
            }
        });
        blocks.into_iter().for_each(Filled::free);
        Filled::new(granted, 100).free();
    }
    assert!(refused > 0, "nothing was refused");
}
