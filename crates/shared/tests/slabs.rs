//! Heaps whose small blocks come from slabs: what holds of any heap, and what slabs add.

mod common;

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use common::{Spot, fork, growing, kill, of, reap, resize};
use heapwright_shared::{BlockState, Error, Leavers, Offset, PolicyKind, Settings, SharedHeap, SmallBlocks, Snapshot};

fn slabs(settings: Settings) -> Settings {
    Settings { small: SmallBlocks::Slabs, ..settings }
}

fn used(heap: &SharedHeap) -> BTreeMap<u64, usize> {
    let mut next = heap.overhead() as u64;
    let mut used = BTreeMap::new();
    for block in heap.blocks().unwrap() {
        assert_eq!(block.offset.get(), next, "blocks lie end to end");
        next += block.size as u64;
        if block.state == BlockState::Used {
            used.insert(block.offset.get(), block.size);
        }
    }
    assert_eq!(next as usize, heap.overhead() + heap.size().unwrap());
    used
}

fn fill(heap: &SharedHeap, block: Offset, bytes: usize, with: u8) {
    // SAFETY: the block is the caller's and as long.
    unsafe { heap.pointer(block).write_bytes(with, bytes) };
}

fn holds(heap: &SharedHeap, block: Offset, bytes: usize, what: u8) -> bool {
    // SAFETY: as above, and no thread writes to it.
    unsafe { std::slice::from_raw_parts(heap.pointer(block).as_ptr(), bytes) }.iter().all(|&byte| byte == what)
}

/// How many blocks were allocated and freed since the heap was made.
fn counted(heap: &SharedHeap) -> (u64, u64) {
    let counters = heap.counters().unwrap();
    (counters.mallocs, counters.frees)
}

/// Random operations through three handles against a model.
#[test]
fn any_handle_frees_what_any_other_allocated() {
    for policy in PolicyKind::ALL {
        for (granule, most) in [(16, None), (64, None), (64, Some(8 << 20)), (256, None)] {
            let spot = Spot::new("slabs");
            let settings = slabs(Settings { granule, max_size: most, ..of(policy, 1 << 20) });
            let handles = [spot.create(&settings), spot.open(), spot.open()];
            let mut rng = fastrand::Rng::with_seed(policy as u64);
            let mut model: Vec<(Offset, usize, u8)> = Vec::new();
            for step in 0..6000 {
                let heap = &handles[rng.usize(..3)];
                if rng.usize(..5) < 3 || model.is_empty() {
                    let bytes = if rng.u8(..) < 5 { rng.usize(2049..9000) } else { rng.usize(0..2049) };
                    let align = 1 << rng.usize(..9);
                    match heap.allocate_aligned(bytes, align) {
                        Ok(block) => {
                            assert!(block.get().is_multiple_of(align.max(granule as usize) as u64));
                            assert!(heap.usable_size(block).unwrap() >= bytes);
                            fill(heap, block, bytes, step as u8);
                            model.push((block, bytes, step as u8));
                        }
                        Err(error) => assert_eq!(error, Error::Full { bytes }),
                    }
                } else if rng.u8(..) < 20 {
                    let at = rng.usize(..model.len());
                    let (block, bytes, tag) = model[at];
                    let new = rng.usize(1..3000);
                    if let Ok(moved) = resize(heap, block, new) {
                        assert!(holds(heap, moved, bytes.min(new), tag));
                        fill(heap, moved, new, tag);
                        model[at] = (moved, new, tag);
                    }
                } else {
                    let (block, bytes, tag) = model.swap_remove(rng.usize(..model.len()));
                    assert!(holds(heap, block, bytes, tag));
                    heap.deallocate(block).unwrap();
                    assert!(heap.deallocate(block).is_err());
                }
                if step % 1000 == 0 {
                    heap.check().unwrap();
                    let found = used(heap);
                    assert_eq!(found.len(), model.len());
                    let (mallocs, frees) = counted(heap);
                    assert_eq!(mallocs - frees, model.len() as u64);
                    assert!(model.iter().all(|(block, bytes, _)| found[&block.get()] >= *bytes));
                }
            }
            for (block, ..) in model {
                handles[0].deallocate(block).unwrap();
            }
            assert!(used(&handles[1]).is_empty());
            handles[2].check().unwrap();
            handles.into_iter().for_each(|heap| heap.close().unwrap());
            let snapshot = Snapshot::read(&spot).unwrap();
            assert_eq!(snapshot.audit, Ok(()));
            assert!(snapshot.blocks.iter().all(|block| block.state == BlockState::Free));
            assert_eq!(snapshot.small, SmallBlocks::Slabs);
        }
    }
}

#[test]
fn small_blocks_come_from_slabs_and_count() {
    let spot = Spot::new("slabs");
    let heap = spot.create(&slabs(of(PolicyKind::Best, 1 << 20)));
    let blocks: Vec<Offset> = (0..1000).map(|_| heap.allocate(64).unwrap()).collect();
    assert_eq!(used(&heap).len(), 1000);
    assert_eq!(heap.counters().unwrap().mallocs, 1000, "slabs are none of them");
    assert!(blocks.windows(2).filter(|pair| pair[1].get() == pair[0].get() + 64).count() > 990);
    assert_eq!(heap.processes().unwrap()[0].blocks, 1000);
    blocks.into_iter().for_each(|block| heap.deallocate(block).unwrap());
    assert_eq!(counted(&heap), (1000, 1000));
    let blocks: Vec<Offset> = (0..400).map(|_| heap.allocate(2000).unwrap()).collect();
    blocks.into_iter().for_each(|block| heap.deallocate(block).unwrap());
    heap.allocate(512 << 10).unwrap();
    assert_eq!(counted(&heap), (1401, 1400), "slabs were given back");
    heap.close().unwrap();
    let counters = Snapshot::read(&spot).unwrap().counters;
    assert_eq!((counters.mallocs, counters.frees), (1401, 1400));
}

#[test]
fn a_slab_is_no_block_and_wrong_frees_are_refused() {
    let spot = Spot::new("slabs");
    let heap = spot.create(&slabs(of(PolicyKind::Best, 1 << 20)));
    let block = heap.allocate(100).unwrap();
    let inside = Offset::new(block.get() + 64).unwrap();
    assert_eq!(heap.deallocate(inside), Err(Error::NotABlock { offset: inside.get() }));
    assert_eq!(heap.set_root("inside", inside), Err(Error::NotABlock { offset: inside.get() }));
    heap.set_root("block", block).unwrap();
    assert_eq!(heap.resize_in_place(block, 128), Ok(()));
    assert_eq!(heap.resize_in_place(block, 129), Err(Error::NoRoom { bytes: 129 }));
    heap.deallocate(block).unwrap();
    for heap in [&heap, &spot.open()] {
        assert_eq!(heap.deallocate(block), Err(Error::AlreadyFree { offset: block.get() }));
        for wild in [1, 64, 1 << 30, u64::MAX] {
            assert!(heap.deallocate(Offset::new(wild).unwrap()).is_err());
        }
    }
}

#[test]
fn requests_that_no_heap_can_serve_are_refused() {
    let spot = Spot::new("slabs");
    let heap = spot.create(&slabs(of(PolicyKind::Best, 1 << 20)));
    for bytes in [(1 << 20) + 1, 1 << 47, 1 << 63, usize::MAX - 4095, usize::MAX - 64, usize::MAX] {
        for align in [1, 64, 128, 4096] {
            assert_eq!(heap.allocate_aligned(bytes, align), Err(Error::Full { bytes }), "{bytes:#x} at {align}");
        }
    }
}

#[test]
fn a_full_heap_takes_back_what_slabs_do_not_need() {
    let spot = Spot::new("slabs");
    let heap = spot.create(&slabs(of(PolicyKind::Best, 1 << 20)));
    let mut blocks = Vec::new();
    while let Ok(block) = heap.allocate(64) {
        blocks.push(block);
    }
    assert!(blocks.len() > 16000, "{}", blocks.len());
    blocks.into_iter().for_each(|block| heap.deallocate(block).unwrap());
    heap.allocate(1 << 20).unwrap();
}

/// What slabs do not need is taken from them for a block of the policy that is to become longer, too.
#[test]
fn a_block_grows_in_a_full_heap_of_empty_slabs() {
    for policy in PolicyKind::ALL {
        let spot = Spot::new("slabs");
        let heap = spot.create(&slabs(of(policy, 1 << 20)));
        let long = heap.allocate(8000).unwrap();
        fill(&heap, long, 8000, 7);
        let mut blocks = Vec::new();
        while let Ok(block) = heap.allocate(64) {
            blocks.push(block);
        }
        blocks.into_iter().for_each(|block| heap.deallocate(block).unwrap());
        let longer = resize(&heap, long, 300_000).unwrap();
        assert!(holds(&heap, longer, 8000, 7), "{policy:?}");
        heap.check().unwrap();
    }
}

/// The first blocks above 2 KiB are the policy's; in a full heap they come from slabs that are adopted.
#[test]
fn slabs_of_those_who_left_serve_the_first_request() {
    for bytes in [2000, 3000, 4096] {
        let spot = Spot::new("slabs");
        let (heap, other) = (spot.create(&slabs(of(PolicyKind::Best, 1 << 20))), spot.open());
        let mut blocks = Vec::new();
        while let Ok(block) = other.allocate(bytes) {
            blocks.push(block);
        }
        // Of each slab, blocks stay.
        blocks.iter().step_by(2).for_each(|&block| other.deallocate(block).unwrap());
        other.close().unwrap();
        while heap.allocate(32 << 10).is_ok() {}
        assert!(heap.allocate(bytes).is_ok(), "{bytes}");
        heap.check().unwrap();
    }
}

/// Whether each of the others lives is not asked at every call: that is two or three system calls for each.
#[test]
fn a_refusal_takes_no_longer_with_more_processes() {
    let spot = Spot::new("slabs");
    let heap = spot.create(&Settings { processes: 100, ..slabs(of(PolicyKind::Best, 4 << 20)) });
    let refusal = || {
        while heap.allocate(500).is_ok() {}
        let window = || {
            let begun = Instant::now();
            (0..20).for_each(|_| assert!(heap.allocate(500).is_err()));
            begun.elapsed()
        };
        (0..20).map(|_| window()).min().unwrap()
    };
    let alone = refusal();
    let others: Vec<SharedHeap> = (0..90).map(|_| spot.open()).collect();
    let among_many = refusal();
    assert!(among_many < 3 * alone, "{among_many:?}, alone {alone:?}");
    drop(others);
}

#[test]
fn a_refusal_takes_no_longer_in_a_larger_heap() {
    let refusal = |size| {
        let spot = Spot::new("slabs");
        let heap = spot.create(&slabs(of(PolicyKind::Best, size)));
        while heap.allocate(500).is_ok() {}
        let window = || {
            let begun = Instant::now();
            (0..20).for_each(|_| assert!(heap.allocate(500).is_err()));
            begun.elapsed()
        };
        (0..100).map(|_| window()).min().unwrap()
    };
    let (small, large) = (refusal(1 << 20), refusal(64 << 20));
    assert!(large < 3 * small, "{large:?} in 64 MiB, {small:?} in 1 MiB");
}

/// A search for slabs that found none is not repeated before there may be one; it must be then.
#[test]
fn what_becomes_free_after_a_refusal_is_found_at_once() {
    let others_free = |heap: &SharedHeap, other: SharedHeap, blocks: &[Offset]| {
        blocks.iter().for_each(|&block| other.deallocate(block).unwrap());
        assert!(heap.allocate(100).is_ok(), "another handle freed blocks of this one's slabs");
    };
    let own_frees = |heap: &SharedHeap, _: SharedHeap, blocks: &[Offset]| {
        blocks.iter().for_each(|&block| heap.deallocate(block).unwrap());
        assert!(heap.allocate(100).is_ok(), "this handle freed its blocks");
    };
    let other_closes = |heap: &SharedHeap, other: SharedHeap, _: &[Offset]| {
        other.close().unwrap();
        assert!(heap.allocate(2000).is_ok(), "another handle left its slabs");
    };
    type Case<'c> = &'c dyn Fn(&SharedHeap, SharedHeap, &[Offset]);
    let cases: [Case<'_>; 3] = [&others_free, &own_frees, &other_closes];
    for frees in cases {
        let spot = Spot::new("slabs");
        let heap = spot.create(&slabs(of(PolicyKind::Best, 1 << 20)));
        let other = spot.open();
        let theirs: Vec<Offset> = (0..30).map(|_| other.allocate(2000).unwrap()).collect();
        let mut blocks = Vec::new();
        while let Ok(block) = heap.allocate(2000) {
            blocks.push(block);
        }
        theirs.iter().for_each(|&block| other.deallocate(block).unwrap());
        while let Ok(block) = heap.allocate(2000) {
            blocks.push(block);
        }
        (0..3).for_each(|_| assert!(heap.allocate(100).is_err() && heap.allocate(5000).is_err()));
        frees(&heap, other, &blocks);
        heap.check().unwrap();
    }
}

#[test]
fn one_block_that_another_process_frees_in_a_full_heap_is_found() {
    let spot = Spot::new("slabs");
    let heap = spot.create(&slabs(of(PolicyKind::Best, 2 << 20)));
    let other = spot.open();
    let mut blocks = Vec::new();
    while let Ok(block) = heap.allocate(64) {
        blocks.push(block);
    }
    for block in blocks.into_iter().step_by(997) {
        other.deallocate(block).unwrap();
        assert_eq!(heap.allocate(64), Ok(block));
        assert!(heap.allocate(64).is_err());
    }
}

#[test]
fn a_small_heap_serves_more_processes_than_it_has_room_for_slabs() {
    let spot = Spot::new("slabs");
    let heap = spot.create(&slabs(of(PolicyKind::Best, 64 << 10)));
    let others: Vec<SharedHeap> = (0..20).map(|_| spot.open()).collect();
    for heap in others.iter().chain([&heap]) {
        for bytes in [1, 100, 500] {
            heap.allocate(bytes).unwrap();
        }
    }
    heap.check().unwrap();
}

#[test]
fn slabs_of_the_dead_are_found_soon_after_a_refusal() {
    let spot = Spot::new("slabs");
    let heap = spot.create(&slabs(of(PolicyKind::Best, 1 << 20)));
    let child = fork(|| {
        let heap = spot.open();
        let first = heap.allocate(500).unwrap();
        while heap.allocate(500).is_ok() {}
        heap.set_root("full", first).unwrap();
        loop {
            std::thread::sleep(Duration::from_secs(1));
        }
    });
    while heap.root("full").unwrap().is_none() {
        std::thread::yield_now();
    }
    assert!(heap.allocate(500).is_err());
    kill(child);
    reap(child);
    assert!(heap.reclaim_dead().unwrap().blocks > 1000);
    let begun = Instant::now();
    while heap.allocate(600_000).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(5));
    }
}

#[test]
fn slabs_of_those_who_left_are_adopted() {
    let spot = Spot::new("slabs");
    let heap = spot.create(&slabs(growing(PolicyKind::Best, 1 << 20, 16 << 20)));
    for round in 0..20 {
        let child = fork(|| {
            let heap = spot.open();
            let kept = heap.allocate(64).unwrap();
            fill(&heap, kept, 64, round);
            for _ in 0..100 {
                heap.allocate(64).unwrap();
            }
            if round % 2 == 0 {
                heap.close().unwrap();
            } else {
                std::mem::forget(heap);
            }
            true
        });
        assert_eq!(reap(child), 0);
        heap.check().unwrap();
    }
    assert_eq!(used(&heap).len(), 2020);
    assert!(heap.size().unwrap() <= 1 << 20, "slabs were filled up");
    assert_eq!(heap.reclaim_dead().unwrap().blocks, 1010);
    assert_eq!(heap.reclaim(Leavers::DeadAndClosed).unwrap().blocks, 1010);
    assert!(used(&heap).is_empty());
    assert_eq!(counted(&heap), (2020, 2020));
    heap.allocate(1 << 20).unwrap();
    heap.check().unwrap();
}

#[test]
fn a_full_table_makes_room_and_nothing_is_misattributed() {
    let spot = Spot::new("slabs");
    let heap = spot.create(&Settings { processes: 4, ..slabs(of(PolicyKind::Best, 1 << 20)) });
    for _ in 0..20 {
        let child = fork(|| {
            let heap = spot.open();
            heap.allocate(64).unwrap();
            heap.allocate(5000).unwrap();
            std::mem::forget(heap);
            true
        });
        assert_eq!(reap(child), 0);
        let mine = heap.allocate(64).unwrap();
        heap.check().unwrap();
        heap.deallocate(mine).unwrap();
    }
    assert_eq!(used(&heap).len(), 40);
    assert_eq!(heap.left_behind().unwrap().len(), 40);
    let mine = heap.allocate(64).unwrap();
    assert_eq!(heap.reclaim_dead().unwrap().blocks, 40);
    assert_eq!(used(&heap).into_keys().collect::<Vec<_>>(), [mine.get()]);
}

/// A process that left has a block that was placed, and one in a slab that another adopted; then the table is full.
#[test]
fn a_slot_that_is_counted_anew_stays_while_blocks_of_slabs_name_it() {
    let spot = Spot::new("slabs");
    let heap = spot.create(&Settings { processes: 4, ..slabs(of(PolicyKind::Best, 1 << 20)) });
    let [(small, placed), (passing, _)] = [5000, 64].map(|second| {
        let gone = spot.open();
        let blocks = (gone.allocate(64).unwrap(), gone.allocate(second).unwrap());
        gone.close().unwrap();
        blocks
    });
    assert_eq!(heap.reclaim_dead().unwrap().blocks, 0, "their slabs are adopted");
    let second: Vec<u64> =
        used(&heap).into_keys().filter(|&at| ![small, placed].iter().any(|b| b.get() == at)).collect();
    assert!(second.contains(&passing.get()));
    second.into_iter().for_each(|at| heap.deallocate(Offset::new(at).unwrap()).unwrap());
    let _attached = [spot.open(), spot.open()];
    heap.check().unwrap();
    heap.deallocate(placed).unwrap();
    heap.check().unwrap();
    assert!(SharedHeap::open(&spot).is_ok(), "the slot is freed, and its block is known to be of one that closed");
    heap.check().unwrap();
    assert_eq!(heap.reclaim(Leavers::DeadAndClosed).unwrap().blocks, 1);
}

/// Slabs change while they are copied, since no lock keeps their owners from taking blocks.
#[test]
fn a_snapshot_of_a_busy_heap_finds_no_fault() {
    let spot = Spot::new("slabs");
    let heap = spot.create(&Settings { granule: 16, ..slabs(of(PolicyKind::First, 1 << 20)) });
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    let heap = spot.open();
                    let blocks: Vec<Offset> = (0..5000).map(|_| heap.allocate(16).unwrap()).collect();
                    blocks.into_iter().for_each(|block| heap.deallocate(block).unwrap());
                }
            });
        }
        let audits: Vec<_> = (0..3000).map(|_| Snapshot::read(&spot).map(|snapshot| snapshot.audit)).collect();
        done.store(true, Relaxed);
        assert_eq!(audits.iter().find(|audit| **audit != Ok(Ok(()))), None);
    });
    heap.check().unwrap();
}

#[test]
fn threads_share_a_handle() {
    let spot = Spot::new("slabs");
    let heap = spot.create(&slabs(of(PolicyKind::Best, 4 << 20)));
    let barrier = Barrier::new(4);
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            let (heap, barrier) = (&heap, &barrier);
            scope.spawn(move || {
                barrier.wait();
                let mut rng = fastrand::Rng::with_seed(u64::from(thread));
                let mut blocks = Vec::new();
                for _ in 0..30_000 {
                    if rng.bool() || blocks.is_empty() {
                        let bytes = rng.usize(1..600);
                        let block = heap.allocate(bytes).unwrap();
                        fill(heap, block, bytes, thread);
                        blocks.push((block, bytes));
                    } else {
                        let (block, bytes) = blocks.swap_remove(rng.usize(..blocks.len()));
                        assert!(holds(heap, block, bytes, thread));
                        heap.deallocate(block).unwrap();
                    }
                }
                blocks.into_iter().for_each(|(block, _)| heap.deallocate(block).unwrap());
            });
        }
    });
    assert!(used(&heap).is_empty());
    heap.check().unwrap();
    let (mallocs, frees) = counted(&heap);
    assert_eq!(mallocs, frees);
}

/// Processes that pass blocks to each other through roots, one of which is killed.
#[test]
fn a_forked_child_has_slabs_of_its_own() {
    let spot = Spot::new("slabs");
    let heap = spot.create(&slabs(of(PolicyKind::Best, 1 << 20)));
    let mine = heap.allocate(64).unwrap();
    let child = fork(|| {
        let theirs: Vec<Offset> = (0..100).map(|_| heap.allocate(64).unwrap()).collect();
        heap.deallocate(mine).unwrap();
        heap.set_root("theirs", theirs[7]).unwrap();
        std::thread::sleep(std::time::Duration::from_secs(60));
        true
    });
    while heap.root("theirs").unwrap().is_none() {
        std::thread::yield_now();
    }
    kill(child);
    assert_eq!(reap(child), -libc::SIGKILL);
    assert_eq!(heap.left_behind().unwrap().len(), 100);
    let next = heap.allocate(64).unwrap();
    assert_eq!(used(&heap).len(), 101);
    heap.deallocate(next).unwrap();
    assert_eq!(heap.reclaim_dead().unwrap(), heapwright_shared::Reclaimed { blocks: 99, bytes: 6336, kept: 1 });
}

#[test]
fn granules_above_256_bytes_have_no_slabs() {
    let spot = Spot::new("slabs");
    let settings = Settings { granule: 512, ..slabs(Settings::default()) };
    assert!(matches!(SharedHeap::create(&spot, &settings), Err(Error::BadSettings { .. })));
}
