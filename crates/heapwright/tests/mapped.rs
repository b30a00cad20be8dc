//! The heap that maps every allocation, and the defects that its kind of table is known for.
#![cfg(feature = "os")]

use std::alloc::Layout;
use std::collections::BTreeMap;
use std::ptr::NonNull;

use heapwright::{FreeError, MappedHeap};
use heapwright_os::refusals;

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

#[test]
fn every_block_is_found_however_the_table_grows_and_shrinks() {
    let mut heap = MappedHeap::new();
    let mut model: BTreeMap<usize, (NonNull<u8>, usize)> = BTreeMap::new();
    let mut state = 1u64;
    for round in 0..12_000 {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let pick = (state >> 33) as usize;
        // Waves: mostly allocation up to 3000 blocks, mostly frees down to few, so that gaps and wraps come about.
        let growing = round / 3000 % 2 == 0;
        if pick % 8 < if growing { 7 } else { 1 } {
            let size = pick % 9000;
            let block = heap.allocate(layout(size, 16)).unwrap();
            // SAFETY: the block is new and at least a page long.
            unsafe { block.write(round as u8) };
            model.insert(block.addr().get(), (block, size.max(1).next_multiple_of(4096)));
        } else if let Some(&(block, size)) = model
            .range(pick << 12..)
            .next()
            .or_else(|| model.iter().nth(pick % model.len().max(1)))
            .map(|(_, entry)| entry)
        {
            model.remove(&block.addr().get());
            assert_eq!(heap.usable_size(block), Some(size));
            // SAFETY: the block is not used any more.
            unsafe { heap.deallocate_unsized(block) }.unwrap();
        }
        if round % 1000 == 0 {
            heap.check().unwrap();
        }
    }
    for (block, size) in model.values() {
        assert_eq!(heap.usable_size(*block), Some(*size));
        // SAFETY: the block is not used any more.
        unsafe { heap.deallocate_unsized(*block) }.unwrap();
    }
    heap.check().unwrap();
    let counters = heap.counters();
    assert_eq!((counters.live, counters.blocks, counters.heap_size), (0, 0, 0));
    assert_eq!(counters.mallocs, counters.frees);
}

#[test]
fn the_table_does_not_fill_up_with_what_was_removed() {
    // With tombstones that are not counted, probes of a missing address would not end after this.
    let mut heap = MappedHeap::new();
    for _ in 0..20_000 {
        let block = heap.allocate(layout(1, 1)).unwrap();
        // SAFETY: the block is not used any more.
        unsafe { heap.deallocate_unsized(block) }.unwrap();
        assert_eq!(heap.usable_size(block), None);
    }
}

#[test]
fn alignments_and_mistakes() {
    let mut heap = MappedHeap::new();
    for shift in 0..=25 {
        let block = heap.allocate(layout(5000, 1 << shift)).unwrap();
        assert!(block.addr().get().is_multiple_of(1 << shift));
        // SAFETY: the block has 8192 bytes; none of the pointers freed is used afterwards.
        unsafe {
            block.add(8191).write(1);
            assert_eq!(heap.deallocate(block.add(16), layout(16, 16)), Err(FreeError::NotABlock));
            assert_eq!(heap.deallocate(block, layout(9000, 16)), Err(FreeError::WrongSize));
            heap.deallocate(block, layout(5000, 1 << shift)).unwrap();
            assert_eq!(heap.deallocate(block, layout(5000, 1)), Err(FreeError::NotABlock));
        }
    }
    assert_eq!(heap.counters().live_requested(), Some(0));
}

#[test]
fn resizing_moves_pages_with_their_contents() {
    let mut heap = MappedHeap::new();
    let mut block = heap.allocate(layout(100, 16)).unwrap();
    let mut size = 100;
    // SAFETY: the block is as long as `size` throughout and used by its last address only.
    unsafe {
        block.write_bytes(7, size);
        for new in [5000, 4096, 1 << 20, 100_000, 10] {
            block = heap.resize(block, size, new).unwrap();
            let kept = std::slice::from_raw_parts(block.as_ptr(), size.min(new));
            assert!(kept.iter().all(|&byte| byte == 7));
            block.write_bytes(7, new);
            size = new;
            heap.check().unwrap();
        }
        heap.deallocate(block, layout(10, 16)).unwrap();
    }
}

#[test]
fn a_system_that_refuses_costs_nothing_but_the_request() {
    for granted in 0..400 {
        let mut heap = MappedHeap::new();
        let blocks: Vec<NonNull<u8>> = refusals::after(granted, || {
            let mut blocks = Vec::new();
            while let Ok(block) = heap.allocate(layout(64, 16)) {
                blocks.push(block);
            }
            if let Some(&last) = blocks.last() {
                // SAFETY: the block stays as it is when resizing fails.
                assert!(unsafe { heap.resize(last, 64, 10_000) }.is_err());
            }
            blocks
        });
        heap.check().unwrap();
        assert_eq!(heap.counters().blocks, blocks.len() as u64);
        for block in blocks {
            // SAFETY: the block is not used any more.
            unsafe { heap.deallocate(block, layout(64, 16)) }.unwrap();
        }
    }
}
