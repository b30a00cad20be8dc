//! Blocks that appear in a word of the segment in the step that allocates them, and blocks that no root leads to.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use common::{Spot, allocate_into, fork, free_from, kill, of, reap, resize_into};
use heapwright_shared::{
    BlockState, Error, Leavers, Offset, PolicyKind, Reclaimed, Relocatable, Settings, SharedHeap, SmallBlocks, Traced,
};

#[derive(Clone, Copy)]
#[repr(C)]
struct Node {
    next: Option<Offset<Node>>,
    value: u64,
}

// SAFETY: an offset and a number.
unsafe impl Relocatable for Node {}

type Head = Offset<Option<Offset<Node>>>;

fn list(heap: &SharedHeap) -> Head {
    let head = heap.allocate_value(None).unwrap();
    heap.set_root("list", head.cast()).unwrap();
    head
}

fn push(heap: &SharedHeap, head: Head, value: u64) -> Offset<Node> {
    // SAFETY: the head of the list is such a word, and stays.
    unsafe { heap.allocate_value_into(head, |next| Node { next, value }) }.unwrap()
}

fn pop(heap: &SharedHeap, head: Head) -> Option<u64> {
    let mut value = None;
    let next = |node: std::ptr::NonNull<u8>| {
        // SAFETY: only nodes are in the list, and they are changed under the heap's lock only.
        let node = unsafe { node.cast::<Node>().read() };
        value = Some(node.value);
        node.next.map(Offset::cast)
    };
    free_from(heap, head.cast(), next).unwrap();
    value
}

fn values(heap: &SharedHeap, head: Head) -> Vec<u64> {
    // SAFETY: the head is a word of the list, and no thread changes the list now.
    let first = unsafe { *heap.get(head) };
    // SAFETY: as above, for a node of the list.
    let next = |node: &Offset<Node>| unsafe { heap.get(*node) }.next;
    // SAFETY: as above.
    std::iter::successors(first, next).map(|node| unsafe { heap.get(node) }.value).collect()
}

/// Every policy, without slabs and with them.
fn kinds(size: usize) -> impl Iterator<Item = Settings> {
    let both = [SmallBlocks::Placed, SmallBlocks::Slabs];
    let kind = move |policy| both.map(|small| Settings { small, ..of(policy, size) });
    PolicyKind::ALL.into_iter().flat_map(kind)
}

fn used(heap: &SharedHeap) -> usize {
    heap.blocks().unwrap().iter().filter(|block| block.state == BlockState::Used).count()
}

#[test]
fn a_list_is_pushed_and_popped() {
    for settings in kinds(1 << 18) {
        let spot = Spot::new("list");
        let heap = spot.create(&settings);
        let head = list(&heap);
        assert_eq!(pop(&heap, head), None);
        (0..100).for_each(|value| _ = push(&heap, head, value));
        assert_eq!(values(&heap, head), (0..100).rev().collect::<Vec<_>>());
        heap.check().unwrap();
        let popped: Vec<u64> = std::iter::from_fn(|| pop(&heap, head)).collect();
        assert_eq!(popped, (0..100).rev().collect::<Vec<_>>());
        assert_eq!(used(&heap), 1);
        heap.check().unwrap();
    }
}

#[test]
fn the_word_follows_a_block_that_moves() {
    for settings in kinds(1 << 18) {
        let spot = Spot::new("follow");
        let heap = spot.create(&settings);
        let word: Offset<Option<Offset>> = heap.allocate_value(None).unwrap();
        assert_eq!(resize_into(&heap, word, 10), Err(Error::NotABlock { offset: 0 }));
        // SAFETY: the block is as long.
        allocate_into(&heap, word, 100, |block, _| unsafe { block.write_bytes(7, 100) }).unwrap();
        heap.allocate(100).unwrap();
        for bytes in [150, 3000, 20, 9000, 100] {
            let at = resize_into(&heap, word, bytes).unwrap();
            // SAFETY: no other thread uses the word.
            assert_eq!(unsafe { *heap.get(word) }, Some(at));
            // SAFETY: the block holds so many bytes of what was written.
            assert!((0..20).all(|index| unsafe { heap.pointer(at).add(index).read() } == 7));
            assert_eq!(used(&heap), 3);
            heap.check().unwrap();
        }
        assert_eq!(resize_into(&heap, word, 1 << 20), Err(Error::Full { bytes: 1 << 20 }));
        heap.check().unwrap();
        assert!(free_from(&heap, word, |_| None).unwrap().is_some());
        assert_eq!(free_from(&heap, word, |_| None), Ok(None));
    }
}

#[test]
fn words_that_are_none_are_refused() {
    let spot = Spot::new("words");
    let heap = spot.create(&Settings::default());
    let block = heap.allocate(64).unwrap();
    let freed = heap.allocate(64).unwrap();
    heap.deallocate(freed).unwrap();
    for wrong in [8, 1, block.get() + 4, freed.get(), block.get() + (1 << 30), u64::MAX, u64::MAX - 7] {
        let word = Offset::new(wrong).unwrap();
        let refused = Error::NotAWord { offset: wrong };
        assert_eq!(allocate_into(&heap, word, 8, |_, _| panic!("nothing is to be filled")), Err(refused.clone()));
        assert_eq!(resize_into(&heap, word, 8), Err(refused.clone()));
        assert_eq!(free_from(&heap, word, |_| panic!("nothing is to be freed")), Err(refused));
    }
    // A word in the block that it shows.
    // SAFETY: the block is the test's.
    unsafe { heap.pointer(block).cast::<u64>().write(block.get()) };
    let refused = Error::NotAWord { offset: block.get() };
    assert_eq!(free_from(&heap, block.cast(), |_| None), Err(refused.clone()));
    assert_eq!(resize_into(&heap, block.cast(), 1 << 12), Err(refused));
    heap.check().unwrap();
}

#[test]
fn a_panic_while_a_block_is_filled_allocates_nothing() {
    for settings in kinds(1 << 18) {
        let spot = Spot::new("panic");
        let heap = spot.create(&settings);
        let head = list(&heap);
        push(&heap, head, 1);
        // SAFETY: as in `push`.
        let fails = || unsafe { heap.allocate_value_into(head, |_| panic!("no value")) };
        let panicked = catch_unwind(AssertUnwindSafe(fails));
        assert!(panicked.is_err());
        assert!(catch_unwind(AssertUnwindSafe(|| free_from(&heap, head.cast(), |_| panic!("no next")))).is_err());
        assert_eq!((values(&heap, head), used(&heap)), (vec![1], 2));
        heap.check().unwrap();
        push(&heap, head, 2);
        assert_eq!(values(&heap, head), [2, 1]);
    }
}

/// Children push and pop, each also what the other one has pushed, until they are killed.
fn killed_writers_leak_nothing(small: SmallBlocks) {
    let spot = Spot::new("leaks");
    let heap = spot.create(&Settings { small, ..of(PolicyKind::Best, 1 << 20) });
    let head = list(&heap);
    for round in 0..40 {
        let children: [i32; 2] = std::array::from_fn(|_| {
            fork(|| {
                let heap = spot.open();
                loop {
                    push(&heap, head, 1);
                    push(&heap, head, 2);
                    pop(&heap, head);
                }
            })
        });
        std::thread::sleep(Duration::from_micros(3000 + 211 * round));
        children.iter().for_each(|&child| kill(child));
        children.iter().for_each(|&child| assert!(reap(child) != 0));
        assert_eq!(used(&heap), 1 + values(&heap, head).len());
        while pop(&heap, head).is_some() {}
    }
    heap.check().unwrap();
}

#[test]
fn killed_writers_of_placed_blocks_leak_nothing() {
    killed_writers_leak_nothing(SmallBlocks::Placed);
}

#[test]
fn killed_writers_of_blocks_in_slabs_leak_nothing() {
    killed_writers_leak_nothing(SmallBlocks::Slabs);
}

fn trace_nodes(heap: &SharedHeap) -> impl FnMut(Traced, &mut dyn FnMut(Offset)) {
    let base = heap.base();
    move |block, found| {
        // SAFETY: all blocks of these tests are at least as long as a word, and no thread changes them now.
        let word = unsafe { base.add(block.offset.get() as usize).cast::<u64>().read() };
        Offset::new(word).into_iter().for_each(found);
    }
}

#[test]
fn what_no_root_leads_to_is_reclaimed() {
    for settings in kinds(1 << 20) {
        let spot = Spot::new("unreachable");
        let heap = spot.create(&settings);
        let head = list(&heap);
        let in_flight = heap.allocate(48).unwrap();
        let child = fork(|| {
            let heap = spot.open();
            (0..50).for_each(|value| _ = push(&heap, head, value));
            (0..7).for_each(|_| _ = heap.allocate(64).unwrap());
            // SAFETY: ends the child as a kill does.
            unsafe { libc::_exit(0) }
        });
        assert_eq!(reap(child), 0);
        let reclaimed = heap.reclaim_unreachable(Leavers::Dead, trace_nodes(&heap)).unwrap();
        assert_eq!((reclaimed.blocks, reclaimed.kept), (7, 50));
        assert_eq!((values(&heap, head).len(), used(&heap)), (50, 52));
        heap.deallocate(in_flight).unwrap();
        assert_eq!(heap.reclaim_unreachable(Leavers::Dead, trace_nodes(&heap)).unwrap().blocks, 0);
        heap.replace_root("list", Some(head.cast()), None).unwrap();
        let rest = heap.reclaim_unreachable(Leavers::Dead, |_, _| panic!("nothing is reachable")).unwrap();
        assert_eq!((rest.blocks, used(&heap)), (50, 1));
        heap.check().unwrap();
    }
}

#[test]
fn circles_and_wild_offsets_end() {
    let spot = Spot::new("hostile");
    let heap = spot.create(&of(PolicyKind::First, 1 << 16));
    let block = heap.allocate(64).unwrap();
    heap.set_root("self", block).unwrap();
    let trace = |_: Traced, found: &mut dyn FnMut(Offset)| {
        (0..10_000).filter_map(|step| Offset::new(block.get() + step)).for_each(&mut *found);
        [1, 8, u64::MAX, 1 << 63].into_iter().filter_map(Offset::new).for_each(found);
    };
    assert_eq!(heap.reclaim_unreachable(Leavers::DeadAndClosed, trace), Ok(Reclaimed::default()));
    assert_eq!(used(&heap), 1);
}

/// A word shows blocks of slabs and of the engine in turn, and is in either.
#[test]
fn words_and_blocks_in_slabs_and_outside_them() {
    let spot = Spot::new("both");
    let heap = spot.create(&Settings { small: SmallBlocks::Slabs, ..of(PolicyKind::Best, 1 << 20) });
    let other = spot.open();
    let (inside, outside) = (heap.allocate(64).unwrap(), heap.allocate(10_000).unwrap());
    for word in [inside.cast(), outside.cast()] {
        // SAFETY: the words are the test's.
        unsafe { heap.pointer::<Option<Offset>>(word).write(None) };
        for (step, bytes) in [10, 2000, 5000, 40, 9000].into_iter().enumerate() {
            let (one, two) = if step % 2 == 0 { (&heap, &other) } else { (&other, &heap) };
            let filled = |block: std::ptr::NonNull<u8>, old: Option<Offset>| {
                assert_eq!(old, None);
                // SAFETY: the block is as long.
                unsafe { block.write_bytes(9, bytes) };
            };
            let at = allocate_into(one, word, bytes, filled).unwrap();
            assert_eq!(used(&heap), 3);
            let moved = resize_into(two, word, 3 * bytes).unwrap();
            // SAFETY: the block holds what was written.
            assert!((0..bytes).all(|index| unsafe { two.pointer(moved).add(index).read() } == 9));
            assert_eq!(used(&heap), 3);
            if moved != at {
                assert!(matches!(heap.deallocate(at), Err(Error::AlreadyFree { .. } | Error::NotABlock { .. })));
            }
            assert_eq!(free_from(one, word, |_| None), Ok(Some(moved)));
            assert_eq!(used(&heap), 2);
            heap.check().unwrap();
        }
    }
    // A word in a free block of a slab, and the slab itself, which is no block.
    let freed = heap.allocate(64).unwrap();
    heap.deallocate(freed).unwrap();
    assert_eq!(free_from(&heap, freed.cast(), |_| None), Err(Error::NotAWord { offset: freed.get() }));
    // SAFETY: the word is the test's.
    unsafe { heap.pointer(inside.cast()).write(Some(freed)) };
    assert_eq!(free_from(&heap, inside.cast(), |_| None), Err(Error::AlreadyFree { offset: freed.get() }));
}

/// Room that only slabs have is given back for a block that a word is to show.
#[test]
fn a_full_heap_takes_back_what_slabs_do_not_need() {
    let spot = Spot::new("tidy");
    let heap = spot.create(&Settings { small: SmallBlocks::Slabs, ..of(PolicyKind::Best, 1 << 20) });
    let head = heap.allocate(10_000).unwrap();
    // SAFETY: the word is the test's.
    unsafe { heap.pointer::<Option<Offset>>(head.cast()).write(None) };
    let mut blocks = Vec::new();
    while let Ok(block) = heap.allocate(64) {
        blocks.push(block);
    }
    blocks.into_iter().for_each(|block| heap.deallocate(block).unwrap());
    let mut filled = 0;
    allocate_into(&heap, head.cast(), 900_000, |_, _| filled += 1).unwrap();
    assert_eq!((filled, used(&heap)), (1, 2));
}
