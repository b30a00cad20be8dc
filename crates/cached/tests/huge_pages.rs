//! Huge pages under a heap that grows. A process of its own, for its memory is looked at.

mod common;

use std::fs;
use std::ops::Range;
use std::ptr::NonNull;

use common::{Filled, measures, ready};
use heapwright_cached::{self as cached, Measures};
use heapwright_os::{ForkHandlers, at_fork};
use heapwright_slabs::arena::ARENA;

const MIB: usize = 1 << 20;

/// What the system says of the mappings that lie in a range of addresses.
#[derive(Debug, Default)]
struct Memory {
    mappings: usize,
    resident: usize,
    huge: usize,
    asks_for_huge: bool,
}

fn memory_of(range: Range<usize>) -> Memory {
    let text = fs::read_to_string("/proc/self/smaps").unwrap();
    let (mut memory, mut is_inside) = (Memory::default(), false);
    for line in text.lines() {
        let (name, rest) = line.split_once([' ', ':']).unwrap_or((line, ""));
        if let Some((start, _)) = name.split_once('-')
            && let Ok(start) = usize::from_str_radix(start, 16)
        {
            is_inside = range.contains(&start);
            memory.mappings += usize::from(is_inside);
        } else if is_inside {
            let bytes = || rest.trim().trim_end_matches(" kB").parse::<usize>().map_or(0, |kib| kib << 10);
            match name {
                "Rss" => memory.resident += bytes(),
                "AnonHugePages" => memory.huge += bytes(),
                "VmFlags" => memory.asks_for_huge |= rest.contains(" hg"),
                _ => {}
            }
        }
    }
    memory
}

/// What the system says of the pages of the heap.
fn memory_of_pages() -> Memory {
    let base = ARENA.base().addr();
    memory_of(base..base + (1 << 40))
}

/// Whether this process gets a huge page where it asks for one.
fn are_huge_pages_given() -> bool {
    let length = 4 * MIB;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping, of which one byte is written.
    unsafe {
        let mapped = libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        assert!(mapped != libc::MAP_FAILED);
        let inside = mapped.map_addr(|at| at.next_multiple_of(2 * MIB));
        libc::madvise(inside, 2 * MIB, libc::MADV_HUGEPAGE);
        inside.cast::<u8>().write(1);
        let memory = memory_of(mapped.addr()..mapped.addr() + length);
        libc::munmap(mapped, length);
        memory.huge != 0
    }
}

/// Returns the number of huge pages that the system has split so far, of any process.
fn split_by_now() -> usize {
    let text = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix("thp_split_page ")?.parse().ok()).unwrap_or(0)
}

#[test]
fn a_dense_heap_grows_by_huge_pages_and_gives_back_parts_of_them() {
    if measures() != Measures::NONE {
        return;
    }
    ready();
    untouched_blocks_have_none();

    let blocks = fill();
    let dense = memory_of_pages();
    assert!(dense.resident <= 180 * MIB, "{dense:?}");
    assert!(dense.huge != 0 || !are_huge_pages_given(), "{dense:?}");
    assert!(!dense.asks_for_huge && dense.mappings < 8, "{dense:?}");
    untouched_blocks_get_no_more(&dense);

    let split_before = split_by_now();
    let left = free_most(blocks);
    cached::trim();
    let split = split_by_now() - split_before;
    assert!(split >= dense.huge / MIB / 4, "{split} of {dense:?}");
    let sparse = memory_of_pages();
    assert!(sparse.resident < 40 * MIB && !sparse.asks_for_huge, "{sparse:?}");
    free_all(left);
    parts_are_given_back_after_a_child_has_ended();
}

/// Allocates and fills 160 MiB.
fn fill() -> Vec<Filled> {
    const SIZE: usize = 1000;
    (0..(160 * MIB / SIZE) as u64).map(|number| Filled::new(number, SIZE)).collect()
}

/// Frees all blocks but those on one page of sixteen, which it returns.
fn free_most(mut blocks: Vec<Filled>) -> Vec<Filled> {
    let mut number = 0;
    let left = blocks.extract_if(.., |_| (number % 64 < 4, number += 1).0).collect();
    blocks.into_iter().for_each(Filled::free);
    left
}

fn free_all(blocks: Vec<Filled>) {
    blocks.into_iter().for_each(Filled::free);
    cached::trim();
    let empty = memory_of_pages();
    assert!(empty.resident < 2 * MIB, "{empty:?}");
}

/// Allocates 128 MiB of blocks of which nothing is written.
fn reserve() -> Vec<NonNull<u8>> {
    (0..16 * 1024).map(|_| cached::allocate(8 << 10).unwrap()).collect()
}

fn free_reserved(blocks: Vec<NonNull<u8>>) {
    for block in blocks {
        // SAFETY: the block is not used.
        unsafe { cached::free(block).unwrap() };
    }
    cached::trim();
}

fn untouched_blocks_have_none() {
    let blocks = reserve();
    let untouched = memory_of_pages();
    assert!(untouched.resident < 16 * MIB && untouched.huge == 0, "{untouched:?}");
    free_reserved(blocks);
}

fn untouched_blocks_get_no_more(dense: &Memory) {
    let blocks = reserve();
    let untouched = memory_of_pages();
    assert!(untouched.resident < dense.resident + 48 * MIB, "{dense:?} {untouched:?}");
    free_reserved(blocks);
}

/// A huge page that a child uses, too, cannot be split.
fn parts_are_given_back_after_a_child_has_ended() {
    let blocks = fill();
    let huge = memory_of_pages().huge;
    // The drop-in library has its own.
    at_fork(ForkHandlers { hold: |_| {}, let_go: || {}, begin_child: || {} }).unwrap();
    // SAFETY: the child does nothing but wait for its end.
    let child = unsafe { libc::fork() };
    if child == 0 {
        loop {
            // SAFETY: the call has no preconditions.
            unsafe { libc::pause() };
        }
    }
    let split_before = split_by_now();
    let left = free_most(blocks);
    // SAFETY: the child is this test's, and the status is not asked for.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    cached::trim();
    let split = split_by_now() - split_before;
    assert!(split >= huge / MIB / 4, "{split} of {huge}");
    free_all(left);
}
