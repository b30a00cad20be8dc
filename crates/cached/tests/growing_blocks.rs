//! Long blocks that grow by little, or by much, at a time.

use std::ptr::NonNull;

use heapwright_cached::{self as cached, Measures};

mod common;

use common::{measures, ready};

const PAGE: usize = 4096;

fn resize(block: NonNull<u8>, size: usize) -> NonNull<u8> {
    // SAFETY: the block is used by its address no more, nor above its size.
    unsafe { cached::reallocate(block, size) }.expect("there is memory")
}

fn usable(block: NonNull<u8>) -> usize {
    cached::usable_size(block).expect("it is a block")
}

fn free(block: NonNull<u8>) {
    // SAFETY: the block is not used any more.
    unsafe { cached::free(block) }.expect("it is a block");
}

/// Returns a block of `size` bytes with another right behind it, so that it has to move to grow.
fn hemmed_in(size: usize) -> (NonNull<u8>, NonNull<u8>) {
    let mut blocks: Vec<_> = (0..64).map(|_| cached::allocate(size).expect("there is memory")).collect();
    let is_behind = |pair: &[NonNull<u8>]| pair[0].addr().get() + usable(pair[0]) == pair[1].addr().get();
    let first = blocks.windows(2).position(is_behind).expect("blocks of a new heap follow one another");
    let (behind, block) = (blocks.remove(first + 1), blocks.remove(first));
    blocks.into_iter().for_each(free);
    (block, behind)
}

#[test]
fn blocks_that_grow_by_little_in_turns_are_rarely_copied() {
    ready();
    if measures() != Measures::NONE {
        return;
    }
    let mut blocks: Vec<_> = (0..8).map(|_| cached::allocate(40_000).expect("there is memory")).collect();
    let mut moves = 0;
    for size in (41_000..500_000).step_by(1000) {
        for (number, block) in blocks.iter_mut().enumerate() {
            let resized = resize(*block, size);
            moves += usize::from(resized != *block);
            *block = resized;
            assert!(usable(resized) >= size);
            // SAFETY: the block is that long, and what was written to it moves with it.
            unsafe {
                resized.add(size - 1).write(number as u8);
                assert!(size < 42_000 || resized.add(size - 1001).read() == number as u8);
            }
        }
    }
    // An eighth at a time makes a block of 40,000 bytes one of 500,000 in 22 steps.
    assert!(moves <= 8 * 23, "{moves} moves of 8 blocks");
    blocks.into_iter().for_each(free);
}

#[test]
fn a_block_that_grows_by_much_gets_no_room() {
    ready();
    if measures() != Measures::NONE {
        return;
    }
    let (block, behind) = hemmed_in(40_000);
    let doubled = resize(block, 80_000);
    assert!(usable(doubled) < 80_000 + 2 * PAGE, "{} bytes", usable(doubled));
    [doubled, behind].into_iter().for_each(free);
}

#[test]
fn room_goes_back_with_what_is_cut_off() {
    ready();
    if measures() != Measures::NONE {
        return;
    }
    let (block, behind) = hemmed_in(80_000);
    let roomy = resize(block, 82_000);
    assert!(usable(roomy) >= 82_000 + 82_000 / 8 - PAGE, "{} bytes", usable(roomy));
    assert_eq!(resize(roomy, 84_000), roomy);
    let short = resize(roomy, 60_000);
    assert_eq!(short, roomy);
    assert!(usable(short) < 60_000 + PAGE, "{} bytes", usable(short));
    // It has no room any more: what is cut off goes back, however little.
    let exact = resize(short, 56_000);
    assert!(usable(exact) < 56_000 + PAGE, "{} bytes", usable(exact));
    [exact, behind].into_iter().for_each(free);
}
