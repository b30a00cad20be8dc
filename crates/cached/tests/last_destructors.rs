//! Threads that allocate after their exit handlers have run. A process of its own, because it measures the whole
//! process.

mod common;

use std::ffi::c_void;
use std::ptr::without_provenance_mut;
use std::thread;

use common::{Filled, ready};
use heapwright_cached as cached;

/// Of a key made after the heap's own: it runs after that in each round, the last included.
unsafe extern "C" fn allocate_at_the_very_end(key: *mut c_void) {
    Filled::new(1, 200).free();
    // SAFETY: the key exists.
    unsafe { libc::pthread_setspecific(key.addr() as u32 - 1, key) };
}

#[test]
fn the_heaps_of_threads_that_allocate_in_their_last_destructors_are_used_again() {
    ready();
    let mut key = 0;
    // SAFETY: the key is written to a local variable, and the function stays.
    assert_eq!(unsafe { libc::pthread_key_create(&mut key, Some(allocate_at_the_very_end)) }, 0);
    let before = cached::page_counters().unwrap().live;
    for _ in 0..200 {
        // SAFETY: the key exists; its value is told from null and is the key, but for one.
        let ended = move || unsafe { libc::pthread_setspecific(key, without_provenance_mut(key as usize + 1)) };
        assert_eq!(thread::spawn(ended).join().unwrap(), 0);
    }
    let slabs = (cached::page_counters().unwrap().live - before) >> 16;
    assert!((1..50).contains(&slabs), "{slabs} slabs are left of 200 threads");
}
