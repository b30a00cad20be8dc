//! What threads leave behind. A process of its own, so that no other thread takes it.

mod common;

use std::thread;

use common::{Filled, ready};

#[test]
fn the_heaps_of_threads_that_ended_are_used_again() {
    ready();
    let places = || {
        let made: Vec<_> = (0..200).map(|n| Filled::new(n, 200)).collect();
        let places: Vec<_> = made.iter().map(|block| block.address() >> 16).collect();
        made.into_iter().for_each(Filled::free);
        places
    };
    let first = thread::spawn(places).join().unwrap();
    for _ in 0..50 {
        assert!(thread::spawn(places).join().unwrap().iter().all(|place| first.contains(place)));
    }
}
