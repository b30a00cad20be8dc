//! Long blocks that are zero: in memory that is used again. A process of its own, for it counts its page faults.

mod common;

use std::ptr::NonNull;

use common::{measures, ready};
use heapwright_cached::{self as cached, Measures, Purging};

const LENGTH: usize = 8 << 20;
const PAGES: usize = LENGTH / 4096;

/// Allocates a zeroed block, sees that it is, and writes the first `written` bytes.
fn zeroed(written: usize) -> NonNull<u8> {
    zeroed_of(LENGTH, written)
}

fn zeroed_of(length: usize, written: usize) -> NonNull<u8> {
    let block = cached::allocate_zeroed(length).expect("there is memory");
    // SAFETY: the block is new and that long.
    let bytes = unsafe { std::slice::from_raw_parts_mut(block.as_ptr(), length) };
    assert!(bytes[..written].iter().all(|byte| *byte == 0));
    bytes[..written].fill(1);
    block
}

fn free(block: NonNull<u8>) {
    // SAFETY: the block is not used any more.
    unsafe { cached::free(block) }.expect("it is a block");
}

fn page_faults() -> usize {
    // SAFETY: numbers may be zero, and the system writes them all.
    let mut usage = unsafe { std::mem::zeroed::<libc::rusage>() };
    // SAFETY: the place is large enough.
    assert_eq!(unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) }, 0);
    usize::try_from(usage.ru_minflt).expect("a number of faults")
}

#[test]
fn memory_that_is_there_is_zeroed_and_what_is_not_stays_away() {
    cached::set_purging(Purging::Never);
    ready();
    if measures() != Measures::NONE {
        return;
    }
    // A heap this long retains the block that is freed. A short one does so only while calls follow one another within
    // 100 ms, which a loaded machine does not guarantee.
    let untouched: [NonNull<u8>; 10] = std::array::from_fn(|_| cached::allocate(30 << 20).expect("there is memory"));
    free(zeroed(LENGTH));
    let before = page_faults();
    for _ in 0..10 {
        free(zeroed(LENGTH));
    }
    let faults = page_faults() - before;
    assert!(faults < 3 * PAGES, "{faults} faults for 10 times {PAGES} pages");
    // A quarter is written, the rest is not there and need not be.
    cached::trim();
    let before = page_faults();
    free(zeroed(LENGTH / 4));
    let first = page_faults() - before;
    assert!(first < PAGES * 3 / 4, "{first} faults for a quarter of {PAGES} pages");
    let block = zeroed(LENGTH / 4);
    let again = page_faults() - before - first;
    assert!(again < PAGES / 8, "{again} faults for the same quarter");
    // SAFETY: the block is that long.
    let rest = unsafe { std::slice::from_raw_parts(block.as_ptr(), LENGTH) };
    assert!(rest[LENGTH / 4..].iter().all(|byte| *byte == 0));
    free(block);
    // Blocks of no whole number of pieces, or shorter than one, and of no whole number of pages.
    for length in [4_000_000, 700_001] {
        let first = zeroed_of(length, length);
        // Memory behind which there is none is new again once it was purged.
        let behind = cached::allocate(64 << 10).expect("there is memory");
        free(first);
        cached::trim();
        let block = zeroed_of(length, 1);
        assert_eq!(block, first, "the hole is filled");
        let resident = heapwright_os::resident(block, length).expect("the system says it");
        assert!(resident < length / 8, "{resident} bytes of {length} are there, and one was written");
        // SAFETY: the block is that long.
        let bytes = unsafe { std::slice::from_raw_parts(block.as_ptr(), length) };
        assert!(bytes[1..].iter().all(|byte| *byte == 0));
        free(block);
        free(behind);
    }
    untouched.into_iter().for_each(free);
}
