//! A thread collects what others have freed a part at a time. A process of its own: nothing else comes into the inbox.

mod common;

use std::collections::HashSet;
use std::ptr::NonNull;
use std::thread;

use common::{Filled, measures, ready};
use heapwright_cached::{self as cached, Measures};
use heapwright_slabs::heap::Heap;

const BLOCKS: usize = 1024;

fn own_heap() -> &'static Heap {
    heapwright_slabs::thread::heap().owned().unwrap().heap()
}

fn waiting() -> usize {
    let mut blocks = 0;
    own_heap().each_waiting(|_| blocks += 1);
    blocks
}

fn allocate() -> NonNull<u8> {
    cached::take(64).unwrap_or_else(|| cached::allocate(64).unwrap())
}

#[test]
fn an_allocation_collects_a_part_of_what_others_have_freed() {
    if measures() != Measures::NONE {
        return;
    }
    ready();
    let blocks: Vec<Filled> = (0..BLOCKS as u64).map(|number| Filled::new(number, 64)).collect();
    thread::spawn(move || blocks.into_iter().for_each(Filled::free)).join().unwrap();
    let arrived = waiting();
    assert_eq!(arrived, BLOCKS);
    // Another class, whose list is empty: an eighth and a few more.
    cached::allocate(208).unwrap();
    let left = waiting();
    assert!((arrived - arrived / 8 - 16..arrived).contains(&left), "{left}");
    // The others are collected while blocks are needed, before memory that was never used.
    let mut used = HashSet::new();
    while waiting() != 0 {
        used.insert(allocate());
        assert!(used.len() < 4 * BLOCKS);
    }
    assert!(used.len() >= BLOCKS / 2, "{}", used.len());
}
