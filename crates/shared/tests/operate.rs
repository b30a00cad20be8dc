//! Every policy through a segment: the same answers as an engine of its own, by whichever handle.

mod common;

use std::fs::File;
use std::ptr::NonNull;

use common::{Spot, free_from, growing, of, resize, resize_into};
use heapwright_placement::{AnyEngine, Engine, Growth, PolicyKind, Rules};
use heapwright_shared::{BlockState, Error, Offset, Settings, SharedHeap, SmallBlocks};

/// A generator that needs no crate.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below as u64) as usize
    }
}

/// Places of blocks by way of three handles at three addresses, and by an engine alone.
#[test]
fn handles_at_any_address_and_a_lone_engine_agree() {
    for policy in PolicyKind::ALL {
        let spot = Spot::new("agree");
        let settings = Settings { seed: 7, ..of(policy, 1 << 18) };
        let handles = [spot.create(&settings), spot.open(), spot.open()];
        let bases = handles.each_ref().map(|heap| heap.pointer(Offset::<u8>::new(64).unwrap()));
        assert!(bases[0] != bases[1] && bases[1] != bases[2] && bases[0] != bases[2]);
        let rules = Rules {
            granule: 64,
            header: 0,
            min_remainder: 1,
            growth: Growth::Fixed,
            phase: handles[0].overhead(),
            ..Rules::default()
        };
        let mut metadata = vec![0; AnyEngine::metadata_cells(policy, 1 << 18, &rules).unwrap()];
        let mut alone = AnyEngine::create(policy, &mut metadata, 1 << 18, &rules).unwrap();
        alone.seed(7);
        let mut dice = Dice(policy as u64 + 99);
        let mut blocks: Vec<Offset> = Vec::new();
        for step in 0..6000 {
            let heap = &handles[step % 3];
            if dice.roll(5) < 3 || blocks.is_empty() {
                let (bytes, align) = (1 + dice.roll(2000), 1 << dice.roll(7));
                let placed = heap.allocate_aligned(bytes, align);
                let expected = alone.allocate(bytes, align);
                assert_eq!(placed.as_ref().ok().map(|o| o.get() as usize - heap.overhead()), expected.ok());
                match placed {
                    Ok(offset) => {
                        assert!(heap.usable_size(offset).unwrap() >= bytes);
                        assert_eq!(offset.get() as usize % align, 0);
                        blocks.push(offset);
                    }
                    Err(error) => assert_eq!(error, Error::Full { bytes }),
                }
            } else {
                let offset = blocks.swap_remove(dice.roll(blocks.len()));
                heap.deallocate(offset).unwrap();
                alone.deallocate(offset.get() as usize - heap.overhead()).unwrap();
                assert!(heap.deallocate(offset).is_err());
            }
        }
        handles[1].check().unwrap();
        assert_eq!(handles[2].counters().unwrap(), alone.counters().unwrap());
        assert_eq!(handles[0].holes().unwrap(), alone.holes());
        let walked = handles[0].blocks().unwrap();
        assert_eq!(walked.len(), alone.blocks().count());
        assert_eq!(walked.iter().filter(|block| block.state == BlockState::Used).count(), blocks.len());
        assert_eq!(walked.iter().map(|block| block.size).sum::<usize>(), 1 << 18);
    }
}

/// What one handle writes, another reads, at another address.
#[test]
fn contents_are_shared() {
    let spot = Spot::new("contents");
    let (here, there) = (spot.create(&Settings::default()), spot.open());
    let block = here.allocate(1000).unwrap();
    for index in 0..1000 {
        // SAFETY: within the block, which no other thread uses.
        unsafe { here.pointer(block).add(index).write(index as u8) };
    }
    // SAFETY: as above; no thread writes.
    let seen = unsafe { std::slice::from_raw_parts(there.pointer(block).as_ptr(), 1000) };
    assert!(seen.iter().enumerate().all(|(index, &byte)| byte == index as u8));
    assert_eq!(there.offset_of(there.pointer(block)), Some(block));
    assert_eq!(there.offset_of(here.pointer(block)), None);
    assert!(matches!(there.deallocate_pointer(here.pointer(block)), Err(Error::NotABlock { .. })));
    there.deallocate_pointer(there.pointer(block)).unwrap();
    assert_eq!(here.deallocate_pointer(here.pointer(block)), Err(Error::AlreadyFree { offset: block.get() }));
}

#[test]
fn resize_moves_contents_when_it_must() {
    for policy in PolicyKind::ALL {
        let spot = Spot::new("resize");
        let heap = spot.create(&of(policy, 1 << 16));
        let block = heap.allocate(256).unwrap();
        // SAFETY: within the block.
        unsafe { heap.pointer(block).write_bytes(0x5a, 256) };
        let _wall = heap.allocate(64).unwrap();
        let _another = heap.allocate(64).unwrap();
        let moved = resize(&heap, block, 5000).unwrap();
        // SAFETY: within the block.
        assert!((0..256).all(|index| unsafe { heap.pointer(moved).add(index).read() } == 0x5a));
        assert!(heap.usable_size(moved).unwrap() >= 5000);
        if moved != block {
            assert!(matches!(heap.deallocate(block), Err(Error::AlreadyFree { .. } | Error::NotABlock { .. })));
        }
        assert_eq!(resize(&heap, moved, 10).unwrap(), moved);
        assert!(matches!(resize(&heap, moved, 1 << 20), Err(Error::Full { .. })));
        assert_eq!(heap.resize_in_place(moved, 1 << 20), Err(Error::NoRoom { bytes: 1 << 20 }));
        heap.deallocate(moved).unwrap();
        heap.check().unwrap();
    }
}

#[test]
fn values_and_links_are_found_by_others() {
    let spot = Spot::new("values");
    let heap = spot.create(&Settings::default());
    let mut list: Option<Offset<[u64; 2]>> = None;
    for number in 1..=10 {
        list = Some(heap.allocate_value([number, list.map_or(0, Offset::get)]).unwrap());
    }
    heap.set_root("list", list.unwrap().cast()).unwrap();
    let there = spot.open();
    let mut at = there.root("list").unwrap().map(Offset::cast::<[u64; 2]>);
    let mut sum = 0;
    while let Some(node) = at {
        // SAFETY: links lead to nodes, which no thread changes.
        let [number, next] = unsafe { *there.get(node) };
        sum += number;
        at = Offset::new(next);
    }
    assert_eq!(sum, 55);
}

#[test]
fn wrong_offsets_are_refused() {
    let spot = Spot::new("wrong");
    let heap = spot.create(&Settings::default());
    let block = heap.allocate(1000).unwrap();
    for offset in [1, 63, block.get() + 1, block.get() + 64, u64::MAX, 1 << 40] {
        let offset = Offset::new(offset).unwrap();
        assert_eq!(heap.deallocate(offset), Err(Error::NotABlock { offset: offset.get() }));
        assert_eq!(heap.usable_size(offset), Err(Error::NotABlock { offset: offset.get() }));
        assert!(resize(&heap, offset, 10).is_err());
        assert!(heap.adopt(offset).is_err());
        assert!(heap.set_root("wrong", offset).is_err());
    }
    assert!(matches!(heap.allocate_aligned(10, 48), Err(Error::BadAlignment { .. })));
    assert!(matches!(heap.allocate_aligned(10, 1 << 20), Err(Error::BadAlignment { .. })));
    assert!(matches!(heap.allocate(usize::MAX), Err(Error::Full { .. })));
    heap.check().unwrap();
}

#[test]
fn a_freed_block_is_told_from_what_never_was_one() {
    for (small, bytes) in [(SmallBlocks::Placed, 1000), (SmallBlocks::Slabs, 1000), (SmallBlocks::Slabs, 5000)] {
        let spot = Spot::new("freed");
        let heap = spot.create(&Settings { small, ..Settings::default() });
        let (block, word) = (heap.allocate(bytes).unwrap(), heap.allocate_value(None::<Offset>).unwrap());
        heap.deallocate(block).unwrap();
        // SAFETY: the word is this test's own.
        unsafe { heap.pointer(word).write(Some(block)) };
        let freed = Error::AlreadyFree { offset: block.get() };
        for heap in [&heap, &spot.open()] {
            assert_eq!(heap.deallocate(block), Err(freed.clone()));
            assert_eq!(resize(heap, block, 10), Err(freed.clone()));
            assert_eq!(heap.resize_in_place(block, 10), Err(freed.clone()));
            assert_eq!(heap.usable_size(block), Err(freed.clone()));
            assert_eq!(heap.adopt(block), Err(freed.clone()));
            assert_eq!(heap.set_root("freed", block), Err(freed.clone()));
            assert_eq!(resize_into(heap, word, 10), Err(freed.clone()));
            assert_eq!(free_from(heap, word, |_| None), Err(freed.clone()));
        }
        assert!(freed.to_string().contains("freed before"), "{freed}");
    }
}

#[test]
fn heaps_grow_while_others_use_them() {
    for policy in PolicyKind::ALL {
        let spot = Spot::new("grow");
        let here = spot.create(&growing(policy, 1 << 16, 8 << 20));
        let there = spot.open();
        let mut blocks = Vec::new();
        loop {
            let heap = if blocks.len() % 2 == 0 { &here } else { &there };
            match heap.allocate(3000) {
                Ok(block) => {
                    // SAFETY: within the block.
                    unsafe { heap.pointer(block).write_bytes(blocks.len() as u8, 3000) };
                    blocks.push(block);
                }
                Err(error) => break assert_eq!(error, Error::Full { bytes: 3000 }),
            }
        }
        assert_eq!(here.size().unwrap(), 8 << 20);
        assert!(blocks.len() * 4096 >= 8 << 20, "{} blocks under {}", blocks.len(), policy.name());
        here.check().unwrap();
        let late = spot.open();
        for (number, &block) in blocks.iter().enumerate() {
            // SAFETY: within the block; no thread writes.
            assert_eq!(unsafe { late.pointer(block).add(2999).read() }, number as u8);
            late.deallocate(block).unwrap();
        }
        late.check().unwrap();
        let whole = there.allocate(8 << 20).unwrap();
        assert_eq!(here.usable_size(whole).unwrap(), 8 << 20);
    }
}

/// A request that fits nowhere, however long the heap becomes, takes no memory; one that fits at last is met.
#[test]
fn heaps_grow_for_what_can_be_met_only() {
    for policy in PolicyKind::ALL {
        let spot = Spot::new("met");
        let heap = spot.create(&growing(policy, 1 << 16, 8 << 20));
        let _low = heap.allocate(64).unwrap();
        assert_eq!(heap.allocate(8 << 20), Err(Error::Full { bytes: 8 << 20 }));
        if policy != PolicyKind::Buddy {
            assert_eq!(heap.allocate((8 << 20) - 63), Err(Error::Full { bytes: (8 << 20) - 63 }));
        }
        assert_eq!(heap.size().unwrap(), 1 << 16);
        // From 4 MiB on all is free, and some of it is there already.
        heap.grow((4 << 20) + (64 << 10)).unwrap();
        assert!(heap.size().unwrap() < 5 << 20);
        let high = heap.allocate(4 << 20).unwrap();
        assert_eq!(heap.usable_size(high).unwrap(), 4 << 20);
        heap.check().unwrap();
    }
}

#[test]
fn a_file_that_was_cut_does_not_grow() {
    let spot = Spot::new("cut");
    let heap = spot.create(&growing(PolicyKind::Good, 100_000, 1 << 22));
    let file = File::options().write(true).open(spot.path()).unwrap();
    let whole = file.metadata().unwrap().len();
    file.set_len(whole - 1).unwrap();
    let (place, found) = ((*spot).clone(), whole - 1);
    assert_eq!(heap.grow(1_000_000), Err(Error::WrongLength { place, expected: whole, found }));
    assert_eq!(file.metadata().unwrap().len(), found);
    file.set_len(whole).unwrap();
    heap.grow(1_000_000).unwrap();
}

#[test]
fn what_lies_behind_the_end_is_not_reached() {
    let spot = Spot::new("end");
    let heap = spot.create(&growing(PolicyKind::Good, 1 << 16, 1 << 22));
    let other = spot.open();
    let first = heap.pointer(heap.allocate(16).unwrap());
    // SAFETY: only the address is computed, within the mapping.
    let at = |bytes: usize| unsafe { first.add(bytes) };
    let size = heap.size().unwrap();
    assert_eq!((heap.reaches_over(first, size), heap.reaches_over(at(1), size)), (Ok(true), Ok(false)));
    assert_eq!(heap.reaches_over(at(size), 0), Ok(true));
    assert_eq!(heap.reaches_over(at(1 << 20), 16), Ok(false));
    other.grow(2 << 20).unwrap();
    assert_eq!(heap.reaches_over(at(1 << 20), 16), Ok(true));
    assert_eq!(heap.reaches_over(heap.base(), 16), Ok(false));
    assert_eq!(heap.reaches_over(NonNull::<u64>::dangling(), usize::MAX), Ok(false));
}

#[test]
fn growth_on_request() {
    let spot = Spot::new("grow-to");
    let heap = spot.create(&growing(PolicyKind::Good, 100_000, 1 << 22));
    let size = heap.size().unwrap();
    assert!((100_000..110_000).contains(&size));
    heap.grow(10).unwrap();
    assert_eq!(heap.size().unwrap(), size);
    heap.grow(1_000_000).unwrap();
    assert!((1_000_000..1_010_000).contains(&heap.size().unwrap()));
    assert_eq!(heap.grow((1 << 22) + 1), Err(Error::BeyondMaximum { bytes: (1 << 22) + 1, most: 1 << 22 }));
    assert_eq!(spot.create_fails(), Error::Exists { place: (*spot).clone() });
    heap.check().unwrap();
}

impl Spot {
    fn create_fails(&self) -> Error {
        SharedHeap::create(self, &Settings::default()).unwrap_err()
    }
}

/// The table of report 002 asks for little: what is not blocks takes at most 2.5 % of a small buddy segment.
#[test]
fn small_segments_are_packed_tightly() {
    let spot = Spot::new("packed");
    let settings = Settings { granule: 128, ..of(PolicyKind::Buddy, 256 << 10) };
    let heap = spot.create(&settings);
    assert!(heap.overhead() * 1000 <= (256 << 10) * 25, "{} bytes", heap.overhead());
    assert_eq!(std::fs::metadata(heap.place().path()).unwrap().len() as usize, heap.overhead() + (256 << 10));
    assert_eq!((0..64).filter(|_| heap.allocate(4096).is_ok()).count(), 64);
}

#[test]
fn threads_share_a_handle() {
    let spot = Spot::new("threads");
    let heap = spot.create(&of(PolicyKind::First, 1 << 20));
    std::thread::scope(|scope| {
        for thread in 0..4_usize {
            let heap = &heap;
            scope.spawn(move || {
                let mut dice = Dice(thread as u64 + 1);
                let mut held = Vec::new();
                for _ in 0..2000 {
                    if held.len() < 50 && dice.roll(3) > 0 {
                        let block = heap.allocate(1 + dice.roll(500)).unwrap();
                        // SAFETY: the block is this thread's.
                        unsafe { heap.pointer(block).write(thread as u8) };
                        held.push(block);
                    } else if let Some(block) = held.pop() {
                        // SAFETY: as above.
                        assert_eq!(unsafe { heap.pointer(block).read() }, thread as u8);
                        heap.deallocate(block).unwrap();
                    }
                }
                held.into_iter().for_each(|block| heap.deallocate(block).unwrap());
            });
        }
    });
    heap.check().unwrap();
    assert_eq!(heap.counters().unwrap().live, 0);
}
