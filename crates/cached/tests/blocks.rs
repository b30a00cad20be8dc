//! What is promised of blocks: they hold what is written to them, apart from one another, at the alignment asked for.

mod common;

use common::{Filled, any_size, measures, ready, seeded};
use heapwright_cached::{self as cached, Measures};
use heapwright_heaps::FreeError;
use std::alloc::Layout;
use std::ptr::NonNull;

fn sized(size: usize) -> Layout {
    Layout::from_size_align(size, 16).expect("the size is not absurd")
}

#[test]
fn blocks_hold_what_is_written_to_them() {
    ready();
    let mut random = seeded(1);
    let mut blocks: Vec<Filled> = Vec::new();
    for number in 0..100_000 {
        // Now and then nearly all of them go.
        let most = if number % 20_000 < 16_000 { 5_000 } else { 50 };
        while blocks.len() > most {
            blocks.swap_remove(random.usize(..blocks.len())).free();
        }
        match random.u32(0..8) {
            0..4 => blocks.push(Filled::new(number, any_size(&mut random))),
            4..7 if !blocks.is_empty() => blocks.swap_remove(random.usize(..blocks.len())).free(),
            7 if !blocks.is_empty() => {
                let block = blocks.swap_remove(random.usize(..blocks.len()));
                let size = any_size(&mut random);
                blocks.push(block.resize(size));
            }
            _ => {}
        }
    }
    blocks.sort_by_key(Filled::address);
    assert!(blocks.windows(2).all(|pair| pair[0].address() + pair[0].size() <= pair[1].address()));
    blocks.into_iter().for_each(Filled::free);
}

#[test]
fn a_block_of_which_a_quarter_is_not_needed_any_more_moves_to_a_shorter_one() {
    ready();
    if measures() != Measures::NONE {
        return;
    }
    let allocate = |size| cached::allocate(size).expect("there is memory");
    let free = |block| {
        // SAFETY: the block is not used any more.
        unsafe { cached::free(block) }.expect("it is a block");
    };
    let resized = |block, size| {
        // SAFETY: the block is used.
        unsafe { cached::reallocate(block, size) }.expect("it is a block")
    };
    let usable_size = |block| cached::usable_size(block).expect("it is a block");
    for size in (90..32_000).step_by(37) {
        let block = allocate(size);
        let usable = usable_size(block);
        let needed = usable - usable / 4;
        // The first blocks of a size may be those of a longer class.
        let others: [NonNull<u8>; 20] = std::array::from_fn(|_| allocate(needed));
        assert_eq!(resized(block, usable - usable / 8), block, "{usable}");
        let shorter = resized(block, needed);
        let left = usable_size(shorter);
        assert!(left < usable && left - needed <= (needed / 8).max(16), "{needed} of {usable} bytes: {left}");
        others.into_iter().chain([shorter]).for_each(free);
    }
}

#[test]
fn every_class_is_used_to_its_last_block() {
    ready();
    for size in (0..2048).step_by(8).chain((2048..40_000).step_by(500)) {
        let blocks: Vec<_> = (0..(300_000 / (size + 16)) as u64).map(|number| Filled::new(number, size)).collect();
        blocks.into_iter().for_each(Filled::free);
    }
}

#[test]
fn aligned_blocks_are_aligned() {
    ready();
    let mut random = seeded(2);
    let mut blocks = Vec::new();
    for number in 0..20_000 {
        let align = 1 << random.u32(0..24);
        let size = any_size(&mut random);
        let block = cached::allocate_aligned(size, align).expect("there is memory");
        blocks.push(Filled::over(block, number, size, align.max(16)));
        if blocks.len() > 200 {
            blocks.swap_remove(random.usize(..blocks.len())).free();
        }
    }
    blocks.into_iter().for_each(Filled::free);
    // No address of a process but 0 is a multiple of that.
    assert!(cached::allocate_aligned(1, 1 << 48).is_err());
}

#[test]
fn zeroed_blocks_are_zero_wherever_they_come_from() {
    ready();
    let mut random = seeded(3);
    for number in 0..20_000 {
        let size = any_size(&mut random);
        Filled::new(number, size).free();
        let block = cached::allocate_zeroed(size).expect("there is memory");
        let usable = cached::usable_size(block).expect("it is a block");
        // SAFETY: the block is that long.
        let bytes = unsafe { std::slice::from_raw_parts(block.as_ptr(), usable) };
        assert!(bytes.iter().all(|&byte| byte == 0));
        Filled::over(block, number, size, 16).free();
    }
}

#[test]
fn what_is_no_block_is_refused() {
    ready();
    let block = cached::allocate(100).expect("there is memory");
    let long = cached::allocate(100_000).expect("there is memory");
    let mut local = [0u64; 4];
    // SAFETY: none of these is a block.
    unsafe {
        let local = NonNull::new_unchecked(local.as_mut_ptr().cast());
        assert!(!cached::give(local.as_ptr()));
        assert_eq!(cached::free(local), Err(FreeError::NotABlock));
        assert_eq!(cached::free(long.add(4096)), Err(FreeError::NotABlock));
        assert_eq!(cached::usable_size(block.add(16)), None);
        assert_eq!(cached::usable_size(long.add(16)), None);
        let usable = cached::usable_size(block).unwrap();
        assert_eq!(cached::free_sized(block, sized(usable + 1)), Err(FreeError::WrongSize));
        assert_eq!(cached::free_sized(long, sized(1 << 20)), Err(FreeError::WrongSize));
        assert_eq!(cached::free_sized(block, sized(usable)), Ok(()));
        assert_eq!(cached::free(long), Ok(()));
        assert!(cached::free(long).is_err(), "it is free");
    }
}

#[test]
fn requests_that_nothing_could_meet_are_refused() {
    ready();
    for size in [usize::MAX, isize::MAX as usize, 1 << 60, 1 << 46] {
        assert!(cached::allocate(size).is_err(), "{size}");
        assert!(cached::allocate_zeroed(size).is_err(), "{size}");
        assert!(cached::allocate_aligned(size, 64).is_err(), "{size}");
    }
}
