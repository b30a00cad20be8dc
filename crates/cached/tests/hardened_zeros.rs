//! What was written to freed blocks does not come into other blocks with the memory of their slabs. A process of its
//! own, for the measures are its.

use std::ptr::NonNull;

use heapwright_cached::{self as cached, Measures};

const SIZE: usize = 1024;
const BLOCKS: usize = 20_000;
const LONG: usize = 1 << 20;

fn free(block: NonNull<u8>) {
    // SAFETY: the block is not used any more.
    unsafe { cached::free(block) }.expect("it is a block");
}

#[test]
fn slabs_that_are_not_used_any_more_are_zero() {
    cached::harden(Measures::ZERO);
    cached::start().expect("there is memory");
    let blocks: Vec<NonNull<u8>> = (0..BLOCKS).map(|_| cached::allocate(SIZE).expect("there is memory")).collect();
    // SAFETY: the blocks are that long.
    blocks.iter().for_each(|block| unsafe { block.write_bytes(0x55, SIZE) });
    let (kept, freed): (Vec<_>, Vec<_>) = blocks.into_iter().enumerate().partition(|(number, _)| number % 32 == 0);
    for (_, block) in &freed {
        free(*block);
        // SAFETY: this is what programs must not do: the block is free. Its memory stays mapped, because others of its
        // slab are used.
        unsafe { block.add(100).write(1) };
    }
    kept.into_iter().for_each(|(_, block)| free(block));
    // Slabs go whose blocks are all free, and long blocks take their pages.
    for _ in 0..BLOCKS * SIZE / LONG {
        let block = cached::allocate_zeroed(LONG).expect("there is memory");
        // SAFETY: the block is that long, and stays allocated.
        let bytes = unsafe { std::slice::from_raw_parts(block.as_ptr(), LONG) };
        assert!(bytes.iter().all(|byte| *byte == 0), "an old byte is in a new block");
    }
}
