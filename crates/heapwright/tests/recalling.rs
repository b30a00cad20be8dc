//! The heap that recalls its last placements beside one that does every call: the same blocks, errors and counters.
#![cfg(feature = "os")]

use std::alloc::Layout;
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::slice;

use heapwright::{Chosen, FreeError, GrowingHeap, Growth, PolicyKind, RecallingHeap, Requests, Settings, Statistics};
use heapwright_os::refusals;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Operation {
    Allocate(Layout),
    AllocateZeroed(Layout),
    /// Frees the live block that was allocated last.
    FreeLast,
    FreeLastSized,
    /// Frees that block with a size that it may not have.
    FreeLastSizedAs(Layout),
    FreeNth(usize),
    /// Frees a block again of those that were freed last, if nothing was placed there since.
    FreeAgain(usize),
    UsableSizeOfFreed(usize),
    ResizeNth(usize, usize),
    Compare,
    GiveBack,
}

/// Few of them, so that requests are the same again and again; the longest are not recalled.
fn layouts() -> impl Strategy<Value = Layout> {
    let sizes = prop_oneof![4 => prop::sample::select(vec![0usize, 1, 16, 40, 100, 600, 4096]), 1 => 1usize..60_000];
    (sizes, prop_oneof![8 => Just(1usize), 1 => Just(256usize)])
        .prop_map(|(size, align)| Layout::from_size_align(size, align).expect("a layout"))
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let operation = prop_oneof![
        12 => layouts().prop_map(Operation::Allocate),
        1 => layouts().prop_map(Operation::AllocateZeroed),
        8 => Just(Operation::FreeLast),
        4 => Just(Operation::FreeLastSized),
        1 => layouts().prop_map(Operation::FreeLastSizedAs),
        2 => any::<usize>().prop_map(Operation::FreeNth),
        1 => (0usize..8).prop_map(Operation::FreeAgain),
        1 => (0usize..8).prop_map(Operation::UsableSizeOfFreed),
        1 => (any::<usize>(), 1usize..5000).prop_map(|(nth, size)| Operation::ResizeNth(nth, size)),
        1 => Just(Operation::Compare),
        1 => Just(Operation::GiveBack),
    ];
    prop::collection::vec(operation, 1..if cfg!(miri) { 30 } else { 300 })
}

fn settings() -> impl Strategy<Value = Settings> {
    let statistics = prop_oneof![4 => Just(Statistics::Kept), 1 => Just(Statistics::Off)];
    let steps = (0u32..5).prop_map(|k| Growth::Pages(4096 << k));
    let growth = prop_oneof![Just(Growth::Fixed), Just(Growth::Append), Just(Growth::Extend), steps];
    // In a short heap next fit comes to holes below its rover.
    let capacity = prop_oneof![Just(32usize << 10), Just(256 << 10), Just(4 << 20)];
    let requests = prop_oneof![
        2 => Just(Requests::USUAL),
        1 => (0u32..6, 0u32..100).prop_map(|(shift, least)| Requests { align: 1 << shift, least, ..Requests::USUAL }),
    ];
    (capacity, 2u32..6, 0u32..3, 0u32..80, growth, requests, statistics).prop_map(
        |(capacity, shift, headers, min_remainder, growth, requests, statistics)| {
            let granule = 1 << shift;
            let header = headers * granule;
            Settings { capacity, granule, header, min_remainder, growth, requests, statistics, ..Settings::default() }
        },
    )
}

/// A heap that recalls, one that does not, and the live blocks of both: their places, sizes and layouts.
struct Twins {
    recalling: RecallingHeap<Chosen>,
    plain: GrowingHeap<Chosen>,
    bases: [NonNull<u8>; 2],
    live: Vec<(usize, Layout)>,
    freed: VecDeque<usize>,
}

impl Twins {
    fn new(policy: PolicyKind, settings: &Settings) -> Twins {
        let [first, plain] = [(); 2].map(|()| GrowingHeap::with(policy, settings).unwrap());
        let bases = [first.base(), plain.base()];
        Twins { recalling: RecallingHeap::new(first), plain, bases, live: Vec::new(), freed: VecDeque::new() }
    }

    /// The block of each heap at `offset`.
    fn at(&self, offset: usize) -> [NonNull<u8>; 2] {
        // SAFETY: the offset is that of a block in both heaps, or was.
        self.bases.map(|base| unsafe { base.add(offset) })
    }

    fn allocate(&mut self, layout: Layout) {
        let blocks = [self.recalling.allocate(layout), self.plain.allocate(layout)];
        self.keep(blocks.map(Result::ok), layout);
    }

    fn allocate_zeroed(&mut self, layout: Layout) {
        let blocks = [self.recalling.allocate_zeroed(layout).ok(), self.plain.allocate_zeroed(layout).ok()];
        for block in blocks.into_iter().flatten() {
            // SAFETY: the block is as long as its layout, and zeroed.
            let bytes = unsafe { slice::from_raw_parts(block.as_ptr(), layout.size()) };
            assert!(bytes.iter().all(|&byte| byte == 0));
        }
        self.keep(blocks, layout);
    }

    /// Writes over the blocks, which must be at the same place in both heaps.
    fn keep(&mut self, blocks: [Option<NonNull<u8>>; 2], layout: Layout) {
        let [recalled, expected] =
            [0, 1].map(|n| blocks[n].map(|block| block.addr().get() - self.bases[n].addr().get()));
        assert_eq!(recalled, expected, "{layout:?}");
        for block in blocks.into_iter().flatten() {
            // SAFETY: the block is as long as its layout.
            unsafe { block.write_bytes(0xA5, layout.size()) };
        }
        if let Some(offset) = expected {
            self.live.push((offset, layout));
        }
    }

    fn free(&mut self, (offset, layout): (usize, Layout)) {
        let [recalled, plain] = self.at(offset);
        // SAFETY: the block is live in both heaps, or an error, and not used any more.
        let freed = unsafe { [self.recalling.deallocate_unsized(recalled), self.plain.deallocate_unsized(plain)] };
        assert_eq!(freed[0], freed[1], "{layout:?}");
        self.freed.push_front(offset);
    }

    fn free_sized(&mut self, (offset, layout): (usize, Layout), named: Layout) {
        let [recalled, plain] = self.at(offset);
        // SAFETY: as above.
        let freed = unsafe { [self.recalling.deallocate(recalled, named), self.plain.deallocate(plain, named)] };
        assert_eq!(freed[0], freed[1], "{layout:?} freed as {named:?}");
        match freed[1] {
            Ok(()) => self.freed.push_front(offset),
            Err(_) => self.live.push((offset, layout)),
        }
    }

    fn free_again(&mut self, nth: usize) {
        let Some(&offset) = self.freed.get(nth) else { return };
        if self.live.iter().any(|&(live, _)| live == offset) {
            return;
        }
        let [recalled, plain] = self.at(offset);
        // SAFETY: no live block starts there: an error, which changes nothing.
        let freed = unsafe { [self.recalling.deallocate_unsized(recalled), self.plain.deallocate_unsized(plain)] };
        assert_eq!(freed[0], freed[1]);
        assert!(matches!(freed[0], Err(FreeError::NotABlock | FreeError::AlreadyFree)), "{freed:?}");
    }

    fn compare_usable_size(&mut self, nth: usize) {
        if let Some(&offset) = self.freed.get(nth) {
            let [recalled, plain] = self.at(offset);
            assert_eq!(self.recalling.usable_size(recalled), self.plain.usable_size(plain));
        }
    }

    fn resize_nth(&mut self, nth: usize, size: usize) {
        let (offset, layout) = self.live[nth];
        let [recalled, plain] = self.at(offset);
        // SAFETY: the block is live, and not used above its new size.
        let resized = unsafe {
            [
                self.recalling.settled().resize_in_place(recalled, layout.size(), size),
                self.plain.resize_in_place(plain, layout.size(), size),
            ]
        };
        assert_eq!(resized[0], resized[1], "{layout:?} to {size}");
        if resized[1].is_ok() {
            self.live[nth].1 = Layout::from_size_align(size, layout.align()).unwrap();
        }
    }

    fn compare(&mut self) {
        let settled = self.recalling.settled();
        assert_eq!(settled.counters(), self.plain.counters());
        settled.check().unwrap();
        assert!(settled.blocks().eq(self.plain.blocks()));
    }

    fn give_back(&mut self) {
        let least = 4096;
        assert_eq!(self.recalling.settled().retract(least), self.plain.retract(least));
        self.recalling.settled().trim();
        self.plain.trim();
    }

    fn run(&mut self, operation: &Operation) {
        let count = self.live.len();
        match *operation {
            Operation::Allocate(layout) => self.allocate(layout),
            Operation::AllocateZeroed(layout) => self.allocate_zeroed(layout),
            Operation::FreeAgain(nth) => self.free_again(nth),
            Operation::UsableSizeOfFreed(nth) => self.compare_usable_size(nth),
            Operation::Compare => self.compare(),
            Operation::GiveBack => self.give_back(),
            _ if count == 0 => {}
            Operation::FreeLast => {
                let last = self.live.remove(count - 1);
                self.free(last);
            }
            Operation::FreeLastSized => {
                let last = self.live.remove(count - 1);
                self.free_sized(last, last.1);
            }
            Operation::FreeLastSizedAs(layout) => {
                let last = self.live.remove(count - 1);
                self.free_sized(last, layout);
            }
            Operation::FreeNth(nth) => {
                let block = self.live.swap_remove(nth % count);
                self.free(block);
            }
            Operation::ResizeNth(nth, size) => self.resize_nth(nth % count, size),
        }
    }
}

/// Miri is slow, and allows no access to files.
fn config() -> ProptestConfig {
    if cfg!(miri) {
        ProptestConfig { cases: 2, failure_persistence: None, ..ProptestConfig::default() }
    } else {
        ProptestConfig { cases: 600, ..ProptestConfig::default() }
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_heap_that_recalls_is_like_one_that_does_not(
        policy in prop::sample::select(PolicyKind::ALL.to_vec()),
        settings in settings(),
        operations in operations(),
    ) {
        let mut twins = Twins::new(policy, &settings);
        for operation in &operations {
            twins.run(operation);
        }
        twins.compare();
    }
}

/// A block for which nothing is done may not be placed either: the counters say so, the engine's own do not.
#[test]
fn blocks_freed_and_requested_in_turns_are_counted_and_stay_where_they_are() {
    let layouts = [100, 4096, 24].map(|size| Layout::from_size_align(size, 1).unwrap());
    for policy in PolicyKind::ALL {
        let mut twins = Twins::new(policy, &Settings::default());
        for layout in layouts {
            twins.allocate(layout);
        }
        twins.free(twins.live[1]);
        twins.live.remove(1);
        for _ in 0..100 {
            for layout in layouts {
                twins.allocate(layout);
            }
            for _ in layouts {
                twins.run(&Operation::FreeLast);
            }
        }
        twins.compare();
        assert_eq!(twins.plain.counters().unwrap().mallocs, 303);
    }
}

/// Of two holes, the larger one is divided by a small block and one that is not remembered, because it is long, or the
/// heap grew for it. Worst fit then takes another hole for the small block than before.
#[test]
fn nothing_is_recalled_from_before_a_placement_that_is_not_remembered() {
    let layout = |size| Layout::from_size_align(size, 1).unwrap();
    let cases = [(Growth::Fixed, 40_000, 200_000), (Growth::Pages(4096), 1000, 8000)];
    for (growth, hole, divider) in cases {
        let settings = Settings { capacity: 256 << 10, growth, ..Settings::default() };
        let mut twins = Twins::new(PolicyKind::Worst, &settings);
        twins.allocate(layout(hole));
        twins.allocate(layout(16));
        let first = twins.live.remove(0);
        twins.free(first);
        twins.allocate(layout(100));
        twins.allocate(layout(divider));
        let small = twins.live.remove(1);
        twins.free(small);
        twins.allocate(layout(100));
        assert_ne!(twins.live.last(), Some(&small), "{growth:?}");
    }
}

#[test]
fn next_fit_goes_on_behind_the_block_that_was_freed() {
    let layout = |size| Layout::from_size_align(size, 1).unwrap();
    let settings = Settings { capacity: 4096, growth: Growth::Fixed, ..Settings::default() };
    let mut twins = Twins::new(PolicyKind::Next, &settings);
    for size in [112, 16, 112, 16, 4096 - 256] {
        twins.allocate(layout(size));
    }
    for nth in [2, 0] {
        let block = twins.live.remove(nth);
        twins.free(block);
    }
    for expected in [0, 128] {
        twins.allocate(layout(112));
        assert_eq!(twins.live.last().map(|block| block.0), Some(expected));
        twins.run(&Operation::FreeLast);
    }
}

#[test]
fn a_block_freed_twice_is_an_error_while_frees_wait() {
    for policy in PolicyKind::ALL {
        for (depth, again) in (1..8).flat_map(|depth| (0..depth).map(move |again| (depth, again))) {
            let mut twins =
                Twins::new(policy, &Settings { growth: Growth::Fixed, capacity: 1 << 20, ..Settings::default() });
            for size in 1..9 {
                twins.allocate(Layout::from_size_align(100 * size, 1).unwrap());
            }
            for _ in 0..depth {
                twins.run(&Operation::FreeLast);
            }
            twins.free_again(again);
            twins.compare();
        }
    }
}

/// The heap is shorter after a request that fails for want of memory, and cannot be made as long as it was.
#[test]
fn nothing_is_recalled_from_before_a_request_that_failed() {
    let layout = |size| Layout::from_size_align(size, 1).unwrap();
    let far = Layout::from_size_align(100, 1 << 30).unwrap();
    for policy in PolicyKind::ALL {
        for refused in 0..4 {
            let mut twins = Twins::new(policy, &Settings { growth: Growth::Pages(4096), ..Settings::default() });
            for size in [20_000, 16, 400_000] {
                twins.allocate(layout(size));
            }
            for nth in [2, 0] {
                let hole = twins.live.remove(nth);
                twins.free(hole);
            }
            twins.allocate(layout(100));
            let fails = [
                refusals::after(refused, || twins.recalling.allocate(far).is_err()),
                refusals::after(refused, || twins.plain.allocate(far).is_err()),
            ];
            assert_eq!(fails[0], fails[1]);
            if fails[0] {
                twins.run(&Operation::FreeLast);
                twins.allocate(layout(100));
            }
        }
    }
}

#[test]
fn the_free_of_a_block_by_a_lesser_alignment_is_not_put_off() {
    let [aligned, unaligned] = [4096, 16].map(|align| Layout::from_size_align(100, align).unwrap());
    let mut heap = RecallingHeap::new(GrowingHeap::with_policy(PolicyKind::Buddy).unwrap());
    heap.allocate(aligned).unwrap();
    let block = heap.allocate(aligned).unwrap();
    // SAFETY: the block is not used any more.
    unsafe {
        assert!(!heap.put_off_free(block, unaligned));
        assert!(heap.put_off_free(block, aligned));
    }
}
