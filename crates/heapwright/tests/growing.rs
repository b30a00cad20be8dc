//! The growing heap under every policy: contents, memory given back, and a system that refuses.
#![cfg(feature = "os")]

use std::alloc::{GlobalAlloc, Layout};
use std::ptr::NonNull;

use heapwright::{
    Chosen, CreateError, Engine, FirstFit, GlobalHeap, GrowingHeap, Growth, OutOfMemory, PolicyKind, Requests, Rules,
    RulesError, Settings, Zero,
};
use heapwright_os::refusals;
use heapwright_placement::AnyEngine;

const PAGE: usize = 4096;

/// A block and the byte that fills it.
struct Filled {
    block: NonNull<u8>,
    layout: Layout,
    byte: u8,
}

impl Filled {
    fn new(block: NonNull<u8>, layout: Layout, byte: u8) -> Filled {
        assert!(block.addr().get().is_multiple_of(layout.align()));
        // SAFETY: the block is new and as long as its layout.
        unsafe { block.write_bytes(byte, layout.size()) };
        Filled { block, layout, byte }
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the block is used, as long as its layout, and was filled.
        unsafe { std::slice::from_raw_parts(self.block.as_ptr(), self.layout.size()) }
    }

    fn assert_whole(&self) {
        assert!(self.bytes().iter().all(|&byte| byte == self.byte), "a block of {:?} was written over", self.layout);
    }
}

/// A small generator: the same numbers everywhere.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % bound
    }

    fn layout(&mut self) -> Layout {
        let octave = 4 + self.below(12);
        let shifts = if self.below(8) == 0 { 13 } else { 5 };
        Layout::from_size_align(self.below(1 << octave), 1 << self.below(shifts)).unwrap()
    }
}

fn small(policy: PolicyKind) -> GrowingHeap<Chosen> {
    GrowingHeap::with(policy, &Settings { capacity: 64 << 20, ..Settings::default() }).unwrap()
}

#[test]
fn a_capacity_is_whole_pages_and_one_that_no_heap_has_is_refused() {
    for policy in PolicyKind::ALL {
        let heap = |capacity| GrowingHeap::<Chosen>::with(policy, &Settings { capacity, ..Settings::default() });
        for capacity in [1, PAGE - 1, PAGE, PAGE + 1] {
            assert_eq!(heap(capacity).unwrap().capacity(), capacity.next_multiple_of(PAGE));
        }
        let most = 16 * policy.most_granules();
        for capacity in [most + 1, most + PAGE, 1 << 47, 1 << 63, usize::MAX - PAGE, usize::MAX] {
            assert_eq!(heap(capacity).err(), Some(CreateError::Rules(RulesError::Capacity)), "{capacity:#x}");
        }
    }
}

#[test]
fn a_heap_stays_within_a_capacity_that_is_no_whole_page() {
    for policy in PolicyKind::ALL {
        let heap = |capacity| GrowingHeap::<Chosen>::within(policy, &Settings { capacity, ..Settings::default() });
        for capacity in [16, PAGE - 16, PAGE, PAGE + 16] {
            let mut heap = heap(capacity).unwrap();
            assert_eq!(heap.capacity(), capacity);
            let layout = Layout::from_size_align(16, 1).unwrap();
            let blocks = std::iter::from_fn(|| heap.allocate(layout).ok()).count();
            assert_eq!((blocks, heap.heap_size()), (capacity / 16, capacity), "{policy:?}");
        }
        for capacity in [1, 16 * policy.most_granules() + 1, usize::MAX] {
            assert_eq!(heap(capacity).err(), Some(CreateError::Rules(RulesError::Capacity)), "{capacity:#x}");
        }
    }
}

fn free(heap: &mut GrowingHeap<Chosen>, filled: Filled) {
    filled.assert_whole();
    // SAFETY: the block is not used any more.
    unsafe { heap.deallocate(filled.block, filled.layout) }.unwrap();
}

fn resize(heap: &mut GrowingHeap<Chosen>, filled: Filled, layout: Layout) -> Filled {
    filled.assert_whole();
    let kept = filled.layout.size().min(layout.size());
    // SAFETY: the old block is not used afterwards; both functions take either direction.
    let block = unsafe {
        if layout.size() >= filled.layout.size() {
            heap.grow(filled.block, filled.layout, layout)
        } else {
            heap.shrink(filled.block, filled.layout, layout)
        }
    };
    let block = block.unwrap();
    // SAFETY: that much was kept of the old block.
    let bytes = unsafe { std::slice::from_raw_parts(block.as_ptr(), kept) };
    assert!(bytes.iter().all(|&byte| byte == filled.byte), "resizing lost contents");
    Filled::new(block, layout, filled.byte)
}

#[test]
fn blocks_keep_their_contents() {
    for policy in PolicyKind::ALL {
        let mut heap = small(policy);
        let mut numbers = Numbers(policy as u64);
        let mut live: Vec<Filled> = Vec::new();
        for round in 0..3000 {
            let layout = numbers.layout();
            match numbers.below(5) {
                0 | 1 if !live.is_empty() => {
                    let victim = live.swap_remove(numbers.below(live.len()));
                    free(&mut heap, victim);
                }
                2 if !live.is_empty() => {
                    let old = live.swap_remove(numbers.below(live.len()));
                    live.push(resize(&mut heap, old, layout));
                }
                3 => {
                    let block = heap.allocate_zeroed(layout).unwrap();
                    // SAFETY: the block is as long as its layout and initialised.
                    let bytes = unsafe { std::slice::from_raw_parts(block.as_ptr(), layout.size()) };
                    assert!(bytes.iter().all(|&byte| byte == 0), "{policy:?}: not zero");
                    live.push(Filled::new(block, layout, round as u8));
                }
                _ => live.push(Filled::new(heap.allocate(layout).unwrap(), layout, round as u8)),
            }
            if round % 500 == 0 {
                heap.check().unwrap();
            }
        }
        for filled in live {
            free(&mut heap, filled);
        }
        heap.check().unwrap();
        let counters = heap.counters().unwrap();
        assert_eq!((counters.live, counters.live_requested()), (0, Some(0)), "{policy:?}");
        assert_eq!(counters.mallocs, counters.frees);
    }
}

#[test]
fn what_is_not_a_block_is_not_freed() {
    let mut heap = small(PolicyKind::Best);
    let layout = Layout::new::<[u64; 8]>();
    let block = heap.allocate(layout).unwrap();
    let mut local = 0u8;
    // SAFETY: none of these is used afterwards, and only the last `deallocate` frees anything.
    unsafe {
        assert!(heap.deallocate(block.add(16), layout).is_err());
        assert!(heap.deallocate(block.add(1), layout).is_err());
        assert!(heap.deallocate(NonNull::from(&mut local), Layout::new::<u8>()).is_err());
        assert!(heap.deallocate(block, Layout::new::<[u64; 100]>()).is_err());
        assert_eq!(heap.usable_size(block), Some(64));
        heap.deallocate(block, layout).unwrap();
        assert!(heap.deallocate(block, layout).is_err());
    }
    heap.check().unwrap();
}

#[test]
fn requests_are_read_by_the_rules() {
    let requests = Requests { align: 64, least: 100, zero: Zero::Null };
    for policy in PolicyKind::ALL {
        let mut heap = GrowingHeap::<Chosen>::with(policy, &Settings { requests, ..Settings::default() }).unwrap();
        let of = |size| Layout::from_size_align(size, 1).unwrap();
        assert_eq!(heap.allocate(of(0)), Err(OutOfMemory));
        let [block, guard, zeroed] =
            [heap.allocate(of(200)).unwrap(), heap.allocate(of(1)).unwrap(), heap.allocate_zeroed(of(1)).unwrap()];
        for block in [block, guard, zeroed] {
            assert!(block.addr().get().is_multiple_of(64) && heap.usable_size(block).unwrap() >= 100, "{policy:?}");
        }
        // SAFETY: the bytes that are cut off and blocks that moved are not used, and each block is freed once.
        unsafe {
            assert_eq!(heap.shrink(block, of(200), of(10)), Ok(block));
            assert!(heap.usable_size(block).unwrap() >= 100, "{policy:?}: the block became too short");
            let moved = heap.grow(block, of(10), of(5000)).unwrap();
            assert!(moved.addr().get().is_multiple_of(64), "{policy:?}");
            for (block, size) in [(moved, 5000), (guard, 1), (zeroed, 1)] {
                heap.deallocate(block, of(size)).unwrap();
            }
        }
        let counters = heap.counters().unwrap();
        assert_eq!((counters.live, counters.live_requested()), (0, Some(0)), "{policy:?}");
        heap.check().unwrap();
        let wrong = Settings { requests: Requests { align: 48, ..Requests::USUAL }, ..Settings::default() };
        assert_eq!(GrowingHeap::<Chosen>::with(policy, &wrong).err(), Some(CreateError::Align));
    }
}

/// How many of the heap's pages are in memory.
fn resident(heap: &GrowingHeap<Chosen>, bytes: usize) -> usize {
    let mut pages = vec![0u8; bytes / PAGE];
    // SAFETY: mincore writes one byte for each page of a range that is mapped.
    let result = unsafe { libc::mincore(heap.base().as_ptr().cast(), bytes, pages.as_mut_ptr()) };
    assert_eq!(result, 0);
    pages.iter().filter(|&&page| page & 1 == 1).count() * PAGE
}

#[test]
fn holes_of_whole_pages_go_back_to_the_system() {
    for policy in PolicyKind::ALL {
        let mut heap = GrowingHeap::with_policy(policy).unwrap();
        let layout = Layout::from_size_align(1 << 20, 16).unwrap();
        let blocks: Vec<Filled> = (0..80).map(|_| Filled::new(heap.allocate(layout).unwrap(), layout, 1)).collect();
        let whole = heap.counters().unwrap().heap_size as usize;
        let full = resident(&heap, whole);
        assert!(full >= 80 << 20);
        for filled in blocks {
            free(&mut heap, filled);
        }
        let returns = heap.returns();
        assert!(returns.sweeps >= 1 && returns.bytes >= 30 << 20, "{policy:?}: {returns:?}, by itself");
        assert!(resident(&heap, whole) <= full - (30 << 20));
        heap.trim();
        assert_eq!(resident(&heap, whole), 0, "{policy:?}");
        assert_eq!(heap.trim(), 0, "nothing is given back twice");
        heap.check().unwrap();
    }
}

/// The lowest blocks are freed, so that the heap stays long.
#[test]
fn after_most_is_free_little_is_left_to_purge_for_a_block_allocated_and_freed_in_turns() {
    let settings = Settings { keep: 2 << 20, ..Settings::default() };
    let layout = Layout::from_size_align(PAGE, 16).unwrap();
    for policy in PolicyKind::ALL {
        let mut heap = GrowingHeap::<Chosen>::with(policy, &settings).unwrap();
        let mut blocks: Vec<Filled> =
            (0..10_000).map(|_| Filled::new(heap.allocate(layout).unwrap(), layout, 1)).collect();
        blocks.sort_by_key(|filled| filled.block);
        for filled in blocks.drain(..9_000) {
            free(&mut heap, filled);
        }
        assert!(heap.pending() <= (2 << 20) + PAGE, "{policy:?}: {} bytes are pending", heap.pending());
        let before = heap.returns().sweeps;
        for _ in 0..1_000 {
            let filled = Filled::new(heap.allocate(layout).unwrap(), layout, 2);
            free(&mut heap, filled);
        }
        let sweeps = heap.returns().sweeps - before;
        assert!(sweeps <= 4, "{policy:?}: {sweeps} sweeps");
    }
}

#[test]
fn the_lowest_holes_keep_their_pages_longest() {
    let mut heap = small(PolicyKind::First);
    let layout = Layout::from_size_align(1 << 20, 16).unwrap();
    let blocks: Vec<Filled> = (0..10).map(|_| Filled::new(heap.allocate(layout).unwrap(), layout, 1)).collect();
    for filled in blocks {
        free(&mut heap, filled);
    }
    assert_eq!(heap.trim_some(4 << 20), 4 << 20);
    assert_eq!(resident(&heap, 6 << 20), 6 << 20);
    assert_eq!(heap.pending(), 6 << 20);
    assert_eq!((heap.trim(), heap.pending()), (6 << 20, 0));
}

#[test]
fn trimming_spares_what_is_used() {
    let mut heap = small(PolicyKind::First);
    let layout = Layout::from_size_align(3 * PAGE, 16).unwrap();
    let mut blocks: Vec<Option<Filled>> =
        (0..100).map(|at| Some(Filled::new(heap.allocate(layout).unwrap(), layout, at))).collect();
    for at in (0..100).step_by(2) {
        free(&mut heap, blocks[at].take().unwrap());
    }
    assert!(heap.trim() >= 50 * 2 * PAGE);
    for filled in blocks.into_iter().flatten() {
        free(&mut heap, filled);
    }
}

#[test]
fn fresh_zeroed_memory_is_not_touched() {
    let mut heap = GrowingHeap::with_policy(PolicyKind::First).unwrap();
    let layout = Layout::from_size_align(256 << 20, 16).unwrap();
    heap.allocate_zeroed(layout).unwrap();
    assert_eq!(resident(&heap, 256 << 20), 0);
}

/// To write zeros takes a thirtieth of the time of the page faults that the program would have after a purge.
#[test]
fn zeroed_memory_that_is_there_stays_there() {
    for policy in PolicyKind::ALL {
        let mut heap = GrowingHeap::with_policy(policy).unwrap();
        let layout = Layout::from_size_align(4 << 20, 16).unwrap();
        let filled = Filled::new(heap.allocate(layout).unwrap(), layout, 1);
        free(&mut heap, filled);
        let block = heap.allocate_zeroed(layout).unwrap();
        let whole = heap.counters().unwrap().heap_size as usize;
        assert!(resident(&heap, whole) >= 4 << 20, "{policy:?}");
        // SAFETY: the block has that length, and is not written to meanwhile.
        let bytes = unsafe { std::slice::from_raw_parts(block.as_ptr(), layout.size()) };
        assert!(bytes.iter().all(|&byte| byte == 0), "{policy:?}");
    }
}

/// A gap in front of an aligned block is no shorter than the minimum remainder: the heap grows by what that takes.
#[test]
fn aligned_blocks_are_where_a_simulation_places_them_whatever_the_rules() {
    const CAPACITY: usize = 8 << 20;
    let remainders = [1, 100, 4097, 1 << 20];
    let growths = [Growth::Extend, Growth::Append, Growth::Pages(48), Growth::Pages(64 << 10)];
    for (min_remainder, growth) in remainders.into_iter().flat_map(|least| growths.map(|growth| (least, growth))) {
        for header in [0, 16] {
            let settings = Settings { min_remainder, growth, header, capacity: CAPACITY, ..Settings::default() };
            let mut heap = GrowingHeap::<Chosen>::with(PolicyKind::First, &settings).unwrap();
            let phase = heap.base().addr().get();
            let rules = Rules { min_remainder, growth, header, phase, ..Rules::default() };
            let cells = AnyEngine::metadata_cells(PolicyKind::First, CAPACITY, &rules).unwrap();
            let mut metadata = vec![0; cells];
            let mut simulated = AnyEngine::create(PolicyKind::First, &mut metadata, CAPACITY, &rules).unwrap();
            for number in 0..40 {
                let (length, align) = (1 + number * 977 % 5000, 1 << (number % 17));
                let block = heap
                    .allocate(Layout::from_size_align(length, align).unwrap())
                    .map(|block| block.addr().get() - phase)
                    .ok();
                assert_eq!(block, simulated.allocate(length, align).ok(), "{settings:?}, {length} at {align}");
                assert_eq!(heap.heap_size(), simulated.heap_size(), "{settings:?}, {length} at {align}");
            }
        }
    }
}

#[test]
fn long_alignments_hold() {
    for policy in PolicyKind::ALL {
        let mut heap = GrowingHeap::with_policy(policy).unwrap();
        for shift in 0..=25 {
            let layout = Layout::from_size_align(100, 1 << shift).unwrap();
            Filled::new(heap.allocate(layout).unwrap(), layout, 1);
        }
        assert!(heap.allocate(Layout::from_size_align(1, 1 << 40).unwrap()).is_err());
        heap.check().unwrap();
    }
}

#[test]
fn a_system_that_refuses_costs_nothing_but_the_request() {
    for policy in PolicyKind::ALL {
        for granted in 0..8 {
            let mut heap = small(policy);
            let mut live = Vec::new();
            let layout = Layout::from_size_align(1 << 20, 16).unwrap();
            let refused = refusals::after(granted, || {
                while live.len() < 12 {
                    let Ok(block) = heap.allocate(layout) else { return true };
                    live.push(Filled::new(block, layout, live.len() as u8));
                }
                false
            });
            if let Some(last) = live.last() {
                refusals::after(0, || refuse_to_grow(&mut heap, last));
            }
            heap.check().unwrap();
            let before = heap.counters().unwrap().live;
            assert_eq!(before, live.iter().map(|filled| filled.layout.size() as u64).sum::<u64>());
            if refused {
                let layout = Layout::from_size_align(2 << 20, 16).unwrap();
                live.push(Filled::new(heap.allocate(layout).unwrap(), layout, 200));
            }
            for filled in live {
                free(&mut heap, filled);
            }
        }
    }
}

fn refuse_to_grow(heap: &mut GrowingHeap<Chosen>, filled: &Filled) {
    let longer = Layout::from_size_align(filled.layout.size() + (48 << 20), 16).unwrap();
    // SAFETY: the block is as long as its layout; it stays where it is when growing fails.
    assert!(unsafe { heap.grow(filled.block, filled.layout, longer) }.is_err());
    filled.assert_whole();
}

#[test]
fn less_address_space_makes_a_smaller_heap() {
    let made: Vec<bool> = (0..40)
        .map(|granted| refusals::after(granted, || GrowingHeap::with_policy(PolicyKind::Best).is_ok()))
        .collect();
    let calls = made.iter().position(|&made| made).unwrap();
    assert!(calls >= 3 && made[calls..].iter().all(|&made| made), "{made:?}");
    assert_eq!(GrowingHeap::with_policy(PolicyKind::Best).unwrap().capacity(), 1 << 40);
}

#[test]
fn a_global_heap_gives_back_what_it_keeps() {
    static HEAP: GlobalHeap<FirstFit> = GlobalHeap::new();
    assert_eq!((HEAP.trim(), HEAP.set_keep(0)), (0, false), "there is no heap yet");
    let long = Layout::from_size_align(1 << 20, 16).unwrap();
    // SAFETY: the block is as long, and is freed once.
    unsafe {
        let block = HEAP.alloc(long);
        block.write_bytes(1, long.size());
        HEAP.dealloc(block, long);
    }
    assert!(HEAP.trim() >= 1 << 19, "less is retained than the block");
    assert!(HEAP.set_keep(0));
    assert_eq!(HEAP.trim(), 0, "twice");
}
