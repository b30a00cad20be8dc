//! How many of a slab's pages are backed at once. A process of its own, for its memory is looked at.

mod common;

use std::ptr::NonNull;

use common::{measures, ready};
use heapwright_cached::{self as cached, Measures};
use heapwright_os::{page_size, resident};

const SLAB: usize = 64 << 10;
const PAGE: usize = 4096;

/// Allocates blocks until the next slab of the class begins; returns how many of its pages are in memory after its
/// first block.
fn pages_after_the_first_block(size: usize) -> usize {
    let slab_of = |block: NonNull<u8>| block.addr().get() / SLAB;
    let mut before = None;
    loop {
        let block = cached::allocate(size).unwrap();
        // SAFETY: the block has that many bytes.
        unsafe { block.write_bytes(1, size) };
        if before.replace(slab_of(block)).is_some_and(|before| before != slab_of(block)) {
            let start = block.map_addr(|at| (at.get() / SLAB * SLAB).try_into().unwrap());
            return resident(start, SLAB).unwrap() / PAGE;
        }
    }
}

#[test]
fn all_pages_of_a_slab_are_backed_at_once_once_the_heap_is_long() {
    if measures() != Measures::NONE || page_size() != PAGE {
        return;
    }
    // SAFETY: the call takes no pointers. Without huge pages, which are more than a slab.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) }, 0);
    ready();
    // The blocks of a page fill a list, and the second page may be needed for the first block.
    assert!(pages_after_the_first_block(512) <= 2);
    for _ in 0..(130 << 20) / 512 {
        let block = cached::allocate(512).unwrap();
        // SAFETY: the block has that many bytes.
        unsafe { block.write_bytes(1, 512) };
    }
    assert_eq!(pages_after_the_first_block(512), 16);
}
