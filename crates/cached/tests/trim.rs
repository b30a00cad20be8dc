//! Trimming says how much it has given back, wherever that went from. A process of its own, for its memory is looked
//! at.

mod common;

use heapwright_cached::{self as cached, Measures};
use heapwright_slabs::arena::ARENA;

/// What the heap's own records and the test's may need besides.
const SLACK: usize = 64 << 10;

#[test]
fn what_trimming_says_is_what_the_process_has_less() {
    common::ready();
    let mut random = fastrand::Rng::with_seed(17);
    let mut largest = 0;
    for size in [16, 80, 256, 1024, 1536, 5120] {
        for kept in [3, 17, 100, 3000] {
            largest = largest.max(trims(size, kept, &mut random));
        }
    }
    assert!(largest > 256 << 10, "{largest}");
    trims_nothing_untouched();
    a_child_does_not_wait_for_a_trim_of_its_parent();
    trims_the_marks_of_long_blocks();
}

/// A thread is in the middle of a trim when another one forks: what the child frees is purged.
fn a_child_does_not_wait_for_a_trim_of_its_parent() {
    const BYTES: usize = 16 << 20;
    if common::measures().have(Measures::QUARANTINE) {
        // What waits is no hole.
        return;
    }
    let block = cached::allocate(BYTES / 4).unwrap();
    ARENA.lock().unwrap().begin_trim();
    // SAFETY: the child calls nothing but the heap, and `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: this is the child's only thread.
        unsafe { cached::after_fork_in_child() };
        let before = common::purged();
        // More than are retained because earlier ones were used again.
        let blocks = [(); 32].map(|()| cached::allocate(BYTES).unwrap());
        // SAFETY: each block is freed once, and not used.
        blocks.into_iter().for_each(|block| unsafe { cached::free(block).unwrap() });
        let purged = common::purged() - before;
        // SAFETY: ends the child.
        unsafe { libc::_exit(i32::from(purged == 0)) };
    }
    let mut status = 0;
    // SAFETY: waits for the child.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "nothing was purged");
    // SAFETY: the block is not used.
    unsafe { cached::free(block).unwrap() };
    cached::trim();
}

/// Each of many long blocks has a page of the side table that says where it begins.
fn trims_the_marks_of_long_blocks() {
    const COUNT: usize = 3000;
    cached::trim();
    let before = common::resident();
    let blocks: Vec<_> = (0..COUNT).map(|_| cached::allocate(1_100_000).unwrap()).collect();
    let marks = common::resident() - before;
    assert!(marks > COUNT * (3 << 10), "{marks} bytes");
    // SAFETY: the blocks are not used.
    blocks.into_iter().for_each(|block| unsafe { cached::free(block).unwrap() });
    cached::trim();
    let kept = common::resident().saturating_sub(before);
    assert!(kept < marks / 4, "{kept} bytes stay of {marks}");
}

/// What was never touched cannot be given back: of the block, at most its records and a canary are in memory.
fn trims_nothing_untouched() {
    cached::trim();
    let long = cached::allocate(10 << 20).unwrap();
    // SAFETY: the block is not used.
    unsafe { cached::free(long).unwrap() };
    let before = common::resident();
    let trimmed = cached::trim();
    let less = before - common::resident();
    assert!(trimmed <= less && less <= SLACK, "{trimmed} bytes, and the process has {less} less");
    assert_eq!(cached::trim(), 0);
}

/// Frees all blocks but every `kept`th in any order, trims, and compares; returns the bytes that were purged.
fn trims(size: usize, kept: usize, random: &mut fastrand::Rng) -> usize {
    let count = (6 << 20) / size;
    let mut blocks: Vec<_> = (0..count).map(|number| common::Filled::new(number as u64, size)).collect();
    cached::trim();
    let mut number = 0;
    let left: Vec<_> = blocks.extract_if(.., |_| (number % kept == 0, number += 1).0).collect();
    random.shuffle(&mut blocks);
    blocks.into_iter().for_each(common::Filled::free);
    let before = common::resident();
    let trimmed = cached::trim();
    let less = before.saturating_sub(common::resident());
    assert!(trimmed.abs_diff(less) <= SLACK, "{size} {kept}: {trimmed} bytes, and the process has {less} less");
    assert_eq!(cached::trim(), 0, "{size} {kept}: there was more");
    left.into_iter().for_each(common::Filled::free);
    trimmed
}
