//! The fast path serves all classes: a block that a thread frees is what its next request of that class returns.

mod common;

use std::ptr::NonNull;

use common::{measures, ready};
use heapwright_cached::{self as cached, Measures};

/// Prepares the heap; returns whether it has the fast path. Blocks of dissolved slabs do not take it.
fn is_usual() -> bool {
    cached::turn_dissolving_off();
    ready();
    measures() == Measures::NONE
}

fn free(block: NonNull<u8>) {
    // SAFETY: the block is not used any more.
    unsafe { cached::free(block) }.expect("it is a block");
}

#[test]
fn blocks_of_all_classes_are_freed_and_allocated_by_the_fast_path() {
    if !is_usual() {
        return;
    }
    for size in cached::sizes() {
        // The first requests of a small class are served by another class.
        let blocks: Vec<NonNull<u8>> = (0..10).map(|_| cached::allocate(size).expect("there is memory")).collect();
        let block = blocks[8].as_ptr();
        // The first free after a new slab takes the slow path.
        free(blocks[9]);
        // SAFETY: the block is not used any more.
        unsafe {
            assert!(!cached::give_sized(block, size + 1), "{size}: the size is wrong");
            assert!(cached::give_sized(block, size), "{size}");
        }
        assert_eq!(cached::take(size).map(NonNull::as_ptr), Some(block), "{size}");
        // SAFETY: as above.
        assert!(unsafe { cached::give(block) }, "{size}");
        // SAFETY: as above.
        assert!(!unsafe { cached::give(block) }, "{size}: it is free");
        // SAFETY: `take_zeroed` returns a block of that length.
        let zeroed = cached::take_zeroed(size).map(|block| unsafe { std::slice::from_raw_parts(block.as_ptr(), size) });
        assert!(zeroed.is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0)), "{size}");
        blocks.into_iter().take(9).for_each(free);
    }
    assert_eq!(cached::take(cached::sizes().last().expect("there are classes") + 1), None);
}

/// Allocates blocks and frees them, so that the list of their class has some.
fn fill_list(size: usize) {
    let blocks: Vec<NonNull<u8>> = (0..10).map(|_| cached::allocate(size).expect("there is memory")).collect();
    blocks.into_iter().for_each(free);
}

#[test]
fn blocks_are_resized_by_the_fast_path() {
    if !is_usual() {
        return;
    }
    const SIZES: [usize; 6] = [24, 200, 1000, 3000, 9000, 30_000];
    for (before, after) in SIZES.into_iter().flat_map(|before| SIZES.map(|after| (before, after))) {
        fill_list(after);
        let block = cached::allocate(before).expect("there is memory");
        // SAFETY: the block is that long.
        unsafe { block.write_bytes(7, before) };
        // SAFETY: the block is used by its new address only.
        let moved = unsafe { cached::retake(block.as_ptr(), after) };
        let moved = moved.unwrap_or_else(|| panic!("{before} to {after}"));
        let common = before.min(after);
        // SAFETY: the block is that long.
        assert!(unsafe { std::slice::from_raw_parts(moved.as_ptr(), common) }.iter().all(|byte| *byte == 7));
        assert_eq!(moved == block, before == after, "{before} to {after}");
        let longer = after + after / 2;
        fill_list(longer);
        // SAFETY: nothing is resized.
        unsafe {
            assert_eq!(cached::retake(moved.as_ptr(), 0), None, "{after}: a size of 0 frees");
            assert_eq!(cached::retake(moved.as_ptr().add(8), longer), None, "{after}: no block begins there");
            free(moved);
            assert_eq!(cached::retake(moved.as_ptr(), longer), None, "{after}: it is free");
        }
    }
}
