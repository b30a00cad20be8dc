//! How long freed blocks wait in quarantine. A process of its own, for the measures are its.

use std::ptr::NonNull;

use heapwright_cached::{self as cached, Measures};

const MOST_WAITING: usize = 1024;
const MOST_WAITING_BYTES: usize = 1 << 20;

fn allocate(size: usize) -> NonNull<u8> {
    cached::allocate(size).expect("there is memory")
}

fn free(block: NonNull<u8>) {
    // SAFETY: the block is not used any more.
    unsafe { cached::free(block) }.expect("it is a block");
}

/// Frees a block of `size` bytes, then blocks of the lengths of `others` in turn, until the first is returned again;
/// returns how many blocks and bytes were freed until then.
fn wait_of(size: usize, others: &[usize]) -> (usize, usize) {
    let lengths = others.iter().copied().cycle().take(2 * MOST_WAITING);
    let mut others: Vec<_> = lengths.map(|length| (allocate(length), length)).collect();
    let first = allocate(size);
    free(first);
    let (mut blocks, mut bytes, mut taken) = (0, 0, Vec::new());
    while taken.last() != Some(&first) {
        let (other, length) = others.pop().expect("the block is used again");
        free(other);
        blocks += 1;
        bytes += length;
        taken.push(allocate(size));
    }
    taken.into_iter().chain(others.into_iter().map(|(block, _)| block)).for_each(free);
    (blocks, bytes)
}

#[test]
fn a_freed_block_waits_for_1024_others_or_a_mebibyte() {
    cached::harden(Measures::QUARANTINE);
    cached::start().expect("there is memory");
    // Lengths of classes, so that requests are as long as blocks.
    for (size, others) in [(64, &[64][..]), (64, &[16, 512, 768]), (1024, &[16, 32]), (512, &[8192, 16, 28_672])] {
        for round in 0..20 {
            let (blocks, bytes) = wait_of(size, others);
            let is_long = blocks >= MOST_WAITING || bytes + size > MOST_WAITING_BYTES;
            assert!(is_long, "{size} among {others:?}, {round}: only {blocks} blocks of {bytes} bytes were freed");
        }
    }
}
