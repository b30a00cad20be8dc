//! Huge pages under a heap that grows. A process of its own, for its memory is looked at.

mod common;

use std::fs;
use std::ops::Range;

use common::{Filled, measures, ready};
use heapwright_cached::{self as cached, Measures};
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

    const SIZE: usize = 1000;
    let mut blocks: Vec<_> = (0..(160 * MIB / SIZE) as u64).map(|number| Filled::new(number, SIZE)).collect();
    let dense = memory_of_pages();
    assert!(dense.resident <= 180 * MIB, "{dense:?}");
    assert!(dense.huge != 0 || !are_huge_pages_given(), "{dense:?}");
    assert!(!dense.asks_for_huge && dense.mappings < 8, "{dense:?}");

    // Some stay on one page of sixteen.
    let mut number = 0;
    let left: Vec<_> = blocks.extract_if(.., |_| (number % 64 < 4, number += 1).0).collect();
    let split_before = split_by_now();
    blocks.into_iter().for_each(Filled::free);
    cached::trim();
    let split = split_by_now() - split_before;
    assert!(split >= dense.huge / MIB / 4, "{split} of {dense:?}");
    let sparse = memory_of_pages();
    assert!(sparse.resident < 40 * MIB && !sparse.asks_for_huge, "{sparse:?}");

    left.into_iter().for_each(Filled::free);
    cached::trim();
    let empty = memory_of_pages();
    assert!(empty.resident < 2 * MIB, "{empty:?}");
}

/// Slabs of which nothing is written.
fn untouched_blocks_have_none() {
    let blocks: Vec<_> = (0..16 * 1024).map(|_| cached::allocate(8 << 10).unwrap()).collect();
    let untouched = memory_of_pages();
    assert!(untouched.resident < 16 * MIB && untouched.huge == 0, "{untouched:?}");
    for block in blocks {
        // SAFETY: the block is not used.
        unsafe { cached::free(block).unwrap() };
    }
    cached::trim();
}
