//! Guarded blocks of a few pages that come and go keep their guards: nothing is placed, and no system call is made, for
//! the next one of the same length. A process of its own, for the measures are its.

mod common;

use std::io::pipe;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

use heapwright_cached::{self as cached, Measures};
use heapwright_os::page_size;

const SIZE: usize = 40_000;

/// Whether a byte at an address can be read: the system is asked to.
fn is_readable(address: usize) -> bool {
    let (_reader, writer) = pipe().unwrap();
    let byte = std::ptr::without_provenance::<libc::c_void>(address);
    // SAFETY: the system reads the byte for the process, if it can be read.
    unsafe { libc::write(writer.as_raw_fd(), byte, 1) == 1 }
}

/// Returns the address behind the pages of a block of [`SIZE`] bytes.
fn end(block: NonNull<u8>) -> usize {
    (block.addr().get() + SIZE).next_multiple_of(page_size())
}

fn free(block: NonNull<u8>) {
    // SAFETY: the block is not used any more.
    unsafe { cached::free(block) }.unwrap();
}

#[test]
fn guards_stay_where_blocks_of_one_length_come_and_go() {
    cached::harden(Measures::GUARD.and(Measures::CANARY));
    cached::start().unwrap();
    let live: Vec<NonNull<u8>> = (0..20).map(|_| cached::allocate(SIZE).unwrap()).collect();
    live[10..].iter().copied().for_each(free);
    let placed = || cached::page_counters().unwrap().mallocs;
    let before = placed();
    for round in 0..1000 {
        let block = cached::allocate(SIZE).unwrap();
        assert!(!live[..10].contains(&block));
        assert!(is_readable(end(block) - 1) && !is_readable(end(block)), "round {round}");
        // SAFETY: the block is as long.
        unsafe { block.write_bytes(0xA5, SIZE) };
        free(block);
        let zeroed = cached::allocate_zeroed(SIZE).unwrap();
        // SAFETY: as above.
        assert!(unsafe { std::slice::from_raw_parts(zeroed.as_ptr(), SIZE) }.iter().all(|&byte| byte == 0));
        assert!(!is_readable(end(zeroed)), "round {round}");
        free(zeroed);
        // SAFETY: the block is not used; it is none any more.
        assert!(unsafe { cached::free(zeroed) }.is_err());
    }
    assert_eq!(placed(), before, "blocks are placed anew");
    live[..10].iter().copied().for_each(free);
    cached::trim();
    assert_eq!(cached::page_counters().unwrap().live, 0, "pages are lost");
}
