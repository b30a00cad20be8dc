//! Random operations, under every policy, in regions of all lengths at all addresses.

use std::alloc::Layout;
use std::mem::MaybeUninit;
use std::ops::Range;

use heapwright::{Chosen, FixedHeap, Growth, PolicyKind, Rules, RulesError, Statistics};
use proptest::prelude::*;

use crate::shadow::{Heap, Shadow};

#[derive(Clone, Debug)]
enum Operation {
    Allocate(Layout),
    Free(usize),
    Resize(usize, Layout),
    Verify,
}

/// Where the heap's metadata and its handle go.
#[derive(Clone, Copy, Debug)]
enum Home {
    Inside,
    Carved,
    Beside,
}

fn layouts() -> impl Strategy<Value = Layout> {
    let sizes = prop_oneof![8 => 1usize..64, 4 => 64usize..600, 1 => 600usize..20_000];
    let aligns =
        prop_oneof![6 => Just(1usize), 3 => (0u32..5).prop_map(|k| 1 << k), 1 => (5u32..13).prop_map(|k| 1 << k)];
    (sizes, aligns).prop_map(|(size, align)| Layout::from_size_align(size, align).expect("a layout"))
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let operation = prop_oneof![
        8 => layouts().prop_map(Operation::Allocate),
        5 => any::<usize>().prop_map(Operation::Free),
        3 => (any::<usize>(), layouts()).prop_map(|(nth, layout)| Operation::Resize(nth, layout)),
        1 => Just(Operation::Verify),
    ];
    prop::collection::vec(operation, 1..if cfg!(miri) { 30 } else { 300 })
}

fn rules() -> impl Strategy<Value = Rules> {
    let statistics = prop_oneof![Just(Statistics::Kept), Just(Statistics::Off)];
    let growth = prop_oneof![
        4 => Just(Growth::Fixed),
        1 => Just(Growth::Append),
        1 => Just(Growth::Extend),
        1 => Just(Growth::Pages(1024)),
    ];
    (0u32..7, 0u32..4, 0u32..80, growth, statistics).prop_map(|(shift, headers, min_remainder, growth, statistics)| {
        let granule = 1 << shift;
        Rules { granule, header: headers * granule, min_remainder, growth, statistics, ..Rules::default() }
    })
}

fn policies() -> impl Strategy<Value = PolicyKind> {
    prop::sample::select(PolicyKind::ALL.to_vec())
}

fn run(heap: &mut impl Heap, operations: &[Operation]) {
    let mut shadow = Shadow::default();
    for operation in operations {
        match *operation {
            Operation::Allocate(layout) => {
                shadow.allocate(heap, layout);
            }
            Operation::Free(nth) => shadow.free_nth(heap, nth),
            Operation::Resize(nth, layout) => shadow.resize_nth(heap, nth, layout),
            Operation::Verify => shadow.verify(heap),
        }
    }
    shadow.verify(heap);
    shadow.free_all(heap);
    shadow.verify(heap);
}

fn run_fixed(heap: &mut FixedHeap<'_, Chosen>, region: &Range<usize>, operations: &[Operation]) {
    let base = heap.base().addr().get();
    assert!(region.start <= base && base + heap.capacity() <= region.end, "blocks lie in the region");
    run(heap, operations);
    let (holes, size) = (heap.holes(), heap.heap_size());
    assert_eq!(holes.total, size, "everything was freed");
    assert!(holes.count == usize::from(size > 0) || heap.policy() == PolicyKind::Buddy, "and is one hole again");
}

/// Miri is slow, and does not permit access to files.
fn config() -> ProptestConfig {
    if cfg!(miri) {
        ProptestConfig { cases: 2, failure_persistence: None, ..ProptestConfig::default() }
    } else {
        ProptestConfig { cases: 400, ..ProptestConfig::default() }
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn fixed_heaps_keep_what_they_were_given(
        policy in policies(),
        rules in rules(),
        home in prop_oneof![Just(Home::Inside), Just(Home::Carved), Just(Home::Beside)],
        length in prop_oneof![256usize..2048, 2048usize..65536, Just(if cfg!(miri) { 5000 } else { 1usize << 20 })],
        misalignment in 0usize..64,
        operations in operations(),
    ) {
        let mut memory = vec![MaybeUninit::uninit(); length + misalignment];
        let region = &mut memory[misalignment..];
        let range = region.as_ptr().addr()..region.as_ptr().addr() + length;
        let mut metadata = Vec::new();
        let made = match home {
            Home::Inside => FixedHeap::with(policy, region, &rules).map(|mut heap| run_fixed(&mut heap, &range, &operations)),
            Home::Carved => FixedHeap::carve(policy, region, &rules).map(|heap| run_fixed(heap, &range, &operations)),
            Home::Beside => FixedHeap::<Chosen>::metadata_cells(policy, length, &rules).and_then(|cells| {
                metadata.resize(cells, 0xA5A5_A5A5_A5A5_A5A5);
                FixedHeap::beside(policy, region, &mut metadata, &rules).map(|mut heap| run_fixed(&mut heap, &range, &operations))
            }),
        };
        if let Err(error) = made {
            prop_assert!(matches!(error, RulesError::Capacity | RulesError::TooShort { .. }), "{}", error);
            prop_assert!(length < 8192, "{} bytes are enough for a heap", length);
        }
    }

    #[cfg(feature = "os")]
    #[test]
    fn growing_heaps_keep_what_they_were_given(policy in policies(), operations in operations()) {
        let settings = heapwright::Settings { capacity: 1 << 26, ..heapwright::Settings::default() };
        let mut heap = heapwright::GrowingHeap::<Chosen>::with(policy, &settings).expect("a heap");
        run(&mut heap, &operations);
        prop_assert_eq!(heap.counters().expect("statistics").live, 0);
    }
}
