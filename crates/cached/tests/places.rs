//! A view from outside the process finds what a census finds inside.

mod common;

use std::collections::BTreeMap;

use heapwright_cached::{self as cached, HeapGlance, Measures, SlabGlance};
use heapwright_os::read_foreign;

/// This process's own bytes, read as those of another.
fn read<const N: usize>(start: *const u8, number: usize) -> [u8; N] {
    let mut bytes = [0; N];
    assert_eq!(read_foreign(std::process::id(), start.addr() + number * N, &mut bytes), Ok(N));
    bytes
}

#[test]
fn slabs_and_lists_are_seen_from_outside_as_from_inside() {
    if common::measures() != Measures::NONE {
        // The hardened heap is not seen from outside.
        return;
    }
    common::ready();
    let mut random = fastrand::Rng::with_seed(5);
    let mut blocks: Vec<_> = (0..5_000).map(|number| common::Filled::new(number, random.usize(..9_000))).collect();
    random.shuffle(&mut blocks);
    blocks.drain(3_000..).for_each(common::Filled::free);

    let census = cached::census().unwrap();
    let places = cached::places().unwrap();
    let (mut used, mut listed) = (BTreeMap::new(), BTreeMap::new());
    for number in 0..census.pages.heap_size as usize / SlabGlance::LENGTH {
        let entry = u32::from_ne_bytes(read(places.entries, number));
        let slab = places.slabs.wrapping_sub(number * SlabGlance::META);
        if let Some(slab) = SlabGlance::of(entry, &read(slab, 0)) {
            let size = slab.size.expect("no slab is dissolved in a heap that only grew");
            *used.entry(size).or_insert(0) += slab.out;
            assert!(slab.idle() <= slab.resident() && slab.resident() <= 16);
            let out: usize = slab.bytes_out_by_page().sum();
            assert_eq!(out, slab.bytes_out, "{slab:?}");
        }
    }
    let heap_of = |number: usize| read(places.heaps.wrapping_sub(number * HeapGlance::LENGTH), 0);
    for heap in (1..).map_while(|number| HeapGlance::of(&heap_of(number))) {
        for (size, count) in heap.lists() {
            *listed.entry(size).or_insert(0) += count;
            *used.get_mut(&size).unwrap() -= count;
        }
    }
    let seen: Vec<_> = used.iter().map(|(size, used)| (*size, *used, listed.get(size).copied().unwrap_or(0))).collect();
    let told: Vec<_> = census.classes().map(|class| (class.size, class.used, class.listed)).collect();
    assert_eq!(seen, told);
    assert!(listed.values().sum::<usize>() > 0);

    let totals = || [0, 1].map(|number| u64::from_ne_bytes(read(places.mappings.cast(), number)));
    assert_eq!(totals(), [0, 0]);
    let [shorter, longer] = [40, 50].map(|mib| cached::allocate(mib << 20).unwrap());
    assert_eq!(totals(), [2, 90 << 20]);
    // SAFETY: the blocks are live, and not accessed after these calls.
    unsafe {
        cached::free(shorter).unwrap();
        let resized = cached::reallocate(longer, 70 << 20).unwrap();
        assert_eq!(totals(), [1, 70 << 20]);
        cached::free(resized).unwrap();
    }
    assert_eq!(totals(), [0, 0]);
    blocks.into_iter().for_each(common::Filled::free);
}
