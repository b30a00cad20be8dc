//! Freed blocks of the heap that maps every allocation are unmapped.
//!
//! One test, alone in its process: a thread beside it could map something of its own where a block has just been.
#![cfg(feature = "os")]

use std::alloc::Layout;
use std::ptr::NonNull;

use heapwright::MappedHeap;

/// Whether the page at `address` is mapped.
fn is_mapped(address: usize) -> bool {
    let mut page = 0u8;
    // SAFETY: mincore only looks; it fails where nothing is mapped.
    unsafe { libc::mincore(std::ptr::without_provenance_mut(address), 4096, &mut page) == 0 }
}

#[test]
fn freed_blocks_are_unmapped() {
    let mut heap = MappedHeap::new();
    for shift in 0..=25 {
        let layout = Layout::from_size_align(5000, 1 << shift).unwrap();
        let blocks: [NonNull<u8>; 3] = std::array::from_fn(|_| heap.allocate(layout).unwrap());
        for freed in [1, 0, 2] {
            let address = blocks[freed].addr().get();
            assert!(is_mapped(address) && is_mapped(address + 4096));
            // SAFETY: the block is not used any more.
            unsafe { heap.deallocate(blocks[freed], layout) }.unwrap();
            assert!(!is_mapped(address) && !is_mapped(address + 4096), "aligned to 2^{shift}");
        }
    }
}
