//! Every interleaving of a few processes at one slab, run by loom (`.ci/loom`): its bitmaps, its adoption,
//! and the record of a word that shows its blocks. Processes are killed after each number of stores.
//!
//! The files under test are compiled a second time, over atomics of loom's.

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::{Arc, Mutex};
use loom::thread::{self, JoinHandle};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use atomics::{AtomicU8, AtomicU64, die_after, survives};
use bitmap::{NotLive, Words};
use publication::{Publication, Published};
use slab::{Shape, Slab, Tenure};

mod atomics;
#[allow(dead_code, reason = "a part is enough for the models")]
#[path = "bitmap.rs"]
mod bitmap;
#[path = "classes.rs"]
mod classes;
#[allow(dead_code, reason = "a part is enough for the models")]
#[path = "publication.rs"]
mod publication;
#[path = "record.rs"]
mod record;
#[allow(dead_code, reason = "a part is enough for the models")]
#[path = "slab.rs"]
mod slab;

/// The slots of the processes.
const FIRST: u8 = 0;
const SECOND: u8 = 1;
const THIRD: u8 = 2;

/// The offsets of two blocks of the slab. All its others are in use throughout.
const BLOCKS: [u64; 2] = [1 << 16, (1 << 16) + 2048];
const OTHERS: u64 = 0xff ^ 0b11;

/// As much of a segment as one slab needs. Blocks of 2 KiB: sixteen, in one word of each bitmap.
struct Segment {
    shape: Shape,
    slab: Vec<AtomicU64>,
    owners: [AtomicU8; 2],
    publication: Publication,
    /// A word of the data that shows one of the blocks, or none.
    word: AtomicU64,
    /// What is in the blocks: loom finds out if one process uses a block while another does.
    contents: [UnsafeCell<u64>; 2],
    /// The segment's lock. A process that is killed lets go of it when it has done nothing more for a while.
    lock: Mutex<()>,
}

// SAFETY: the contents are what the models are about; loom reports uses that are not in order.
unsafe impl Sync for Segment {}
// SAFETY: as above.
unsafe impl Send for Segment {}

impl Segment {
    /// A slab of the first process, of whose two blocks these are live.
    fn with_live(live: u64) -> Arc<Segment> {
        let shape = Shape::of(8);
        let slab = (0..shape.stride() / 8).map(|_| AtomicU64::default()).collect();
        let class = shape.classes() as u8 - 1;
        let segment = Segment {
            shape,
            slab,
            owners: Default::default(),
            publication: Publication::default(),
            word: AtomicU64::default(),
            contents: [UnsafeCell::new(0), UnsafeCell::new(0)],
            lock: Mutex::new(()),
        };
        segment.slab().begin(Tenure { slot: FIRST, class, adopted: false, turn: 0 });
        segment.words().take(OTHERS | live);
        Arc::new(segment)
    }

    fn slab(&self) -> Slab<'_> {
        // SAFETY: the array has all words of a slab of this shape, and lives as long as the shape.
        unsafe { Slab::at(NonNull::from(&self.slab[0]), &self.shape) }
    }

    fn words(&self) -> Words<'_> {
        self.slab().words(0).unwrap()
    }

    fn tenure(&self) -> Tenure {
        self.slab().tenure().unwrap()
    }

    fn is_live(&self, block: usize) -> bool {
        self.slab().is_live(block)
    }

    /// Uses a block that the caller has.
    fn use_block(&self, block: usize, value: u64) {
        // SAFETY: loom verifies that no other thread uses it.
        self.contents[block].with_mut(|content| unsafe { *content = value });
    }

    fn read_block(&self, block: usize) -> u64 {
        // SAFETY: as above.
        self.contents[block].with(|content| unsafe { *content })
    }

    /// The owner of `slot` takes a block that is free, if one is, as `OwnedClass::take`.
    fn take(&self, slot: u8) -> Option<usize> {
        let free = self.words().free() & 0b11;
        let block = [0, 1].into_iter().find(|block| free >> block & 1 == 1)?;
        self.owners[block].store(slot, Relaxed);
        self.words().take(1 << block);
        Some(block)
    }

    /// The owner collects what others have freed, as `OwnedClass::turn_to`.
    fn collect(&self) {
        self.words().collect(|| match self.publication.freed() {
            0 => 0,
            freed => 1 << ((freed - BLOCKS[0]) / 2048),
        });
    }

    /// Under the lock: does again what a dead process has on record, as `recover::complete` does.
    fn recover(&self) {
        let Some(published) = self.publication.read() else { return };
        let block = |offset: u64| 1 << ((offset - BLOCKS[0]) / 2048);
        if published.taken != 0 {
            self.words().take_again(block(published.taken));
        }
        if published.freed != 0 {
            let _ = self.words().give(block(published.freed));
        }
        self.word.store(published.value, Release);
        self.publication.clear();
    }

    /// Under the lock: the process of `slot` adopts the slab of one that is dead, as `Section::adopt_slabs`.
    fn adopt(&self, slot: u8) -> bool {
        let before = self.tenure();
        if before.slot != FIRST {
            return false;
        }
        let adopted = self.slab().pass_on(before, Tenure { slot, adopted: true, turn: before.turn + 1, ..before });
        self.slab().collect_all(usize::from(before.class));
        adopted
    }
}

/// Runs `model` under every interleaving in which threads are interrupted up to three times.
fn interleave(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// As [`interleave`], with a process that is killed after each number of stores up to `most`.
fn interleave_kills(most: usize, model: impl Fn(usize) + Copy + Send + Sync + 'static) {
    (0..=most).for_each(|stores| interleave(move || model(stores)));
}

fn spawn<R: 'static>(segment: &Arc<Segment>, work: impl FnOnce(&Segment) -> R + 'static) -> JoinHandle<R> {
    let segment = segment.clone();
    thread::spawn(move || work(&segment))
}

#[test]
fn a_block_that_another_frees_is_taken_again_only_after_its_last_use() {
    interleave(|| {
        let segment = Segment::with_live(0b01);
        segment.use_block(0, 1);
        let other = spawn(&segment, |segment| {
            assert_eq!(segment.read_block(0), 1);
            segment.use_block(0, 2);
            segment.words().give(1).unwrap();
        });
        let mut taken = vec![];
        for _ in 0..2 {
            segment.collect();
            if let Some(block) = segment.take(FIRST) {
                segment.use_block(block, 3);
                taken.push(block);
            }
        }
        other.join().unwrap();
        segment.collect();
        assert!((0..2).all(|block| segment.is_live(block) == taken.contains(&block)));
        assert_eq!(segment.words().free() & 0b11, 0b11 & !taken.iter().fold(0, |bits, block| bits | 1 << block));
    });
}

#[test]
fn of_two_that_free_a_block_one_does() {
    interleave(|| {
        let segment = Segment::with_live(0b11);
        let others = [(); 2].map(|()| spawn(&segment, |segment| segment.words().give(1).is_ok()));
        let own = segment.words().put_back(0b10);
        assert_eq!(segment.words().put_back(0b10), Err(NotLive));
        let freed = others.map(|other| other.join().unwrap());
        assert_eq!((freed.iter().filter(|&&freed| freed).count(), own), (1, Ok(())));
        segment.collect();
        assert_eq!(segment.words().free() & 0b11, 0b11);
    });
}

#[test]
fn an_owner_killed_at_any_store_of_an_allocation_leaves_its_block_free_or_its_own() {
    interleave_kills(3, |stores| {
        let segment = Segment::with_live(0b10);
        let owner = spawn(&segment, move |segment| {
            die_after(stores);
            segment.take(FIRST);
            survives()
        });
        let other = spawn(&segment, |segment| segment.words().give(0b10).unwrap());
        let (survived, has_block) = (owner.join().unwrap(), stores >= 2);
        assert!(has_block || !survived);
        assert!(!has_block || segment.owners[0].load(Relaxed) == FIRST);
        // Two survivors adopt: one does, and takes what is free.
        let survivor = spawn(&segment, |segment| {
            let _held = segment.lock.lock().unwrap();
            if segment.adopt(SECOND) { segment.take(SECOND) } else { None }
        });
        let taken = {
            let _held = segment.lock.lock().unwrap();
            if segment.adopt(THIRD) { segment.take(THIRD) } else { None }
        };
        other.join().unwrap();
        let taken = [taken, survivor.join().unwrap()].into_iter().flatten().collect::<Vec<_>>();
        assert!(taken.len() <= 1);
        let expected = |block: usize| taken.contains(&block) || (block == 0 && has_block);
        assert!(!has_block || !taken.contains(&0), "a live block was taken");
        segment.words().collect(|| 0);
        assert!((0..2).all(|block| segment.is_live(block) == expected(block)));
    });
}

#[test]
fn a_survivor_killed_while_it_adopts_leaves_the_slab_to_the_next() {
    interleave_kills(5, |stores| {
        let segment = Segment::with_live(0b01);
        // The owner died before it had its second block.
        die_after(1);
        segment.take(FIRST);
        die_after(usize::MAX);
        let first = spawn(&segment, move |segment| {
            die_after(stores);
            let _held = segment.lock.lock().unwrap();
            segment.adopt(SECOND)
        });
        let other = spawn(&segment, |segment| segment.words().give(0b01).unwrap());
        first.join().unwrap();
        let _held = segment.lock.lock().unwrap();
        if !segment.adopt(THIRD) {
            let before = segment.tenure();
            assert_eq!(before.slot, SECOND);
            assert!(segment.slab().pass_on(before, Tenure { slot: THIRD, turn: 2, ..before }));
        }
        other.join().unwrap();
        segment.words().collect(|| 0);
        assert_eq!(segment.words().free() & 0b11, 0b11);
    });
}

/// `free_from` of another process's block, killed at each store, and recovery, killed as well, while the owner takes
/// what it finds free: the block is freed once.
#[test]
fn a_block_freed_from_a_word_is_freed_once() {
    (0..=7).for_each(|recovered| interleave_kills(15, move |stores| free_from_a_word(stores, recovered)));

    fn free_from_a_word(stores: usize, recovered: usize) {
        let segment = Segment::with_live(0b01);
        segment.words().take(0b10);
        segment.word.store(BLOCKS[0], Release);
        let freer = spawn(&segment, move |segment| {
            die_after(stores);
            let _held = segment.lock.lock().unwrap();
            let freed = Published { freed: BLOCKS[0], ..Published::of(8, None) };
            segment.publication.write(freed);
            let _ = segment.words().give(1);
            segment.word.store(freed.value, Release);
            segment.publication.clear();
        });
        let recoverer = spawn(&segment, move |segment| {
            die_after(recovered);
            let _held = segment.lock.lock().unwrap();
            segment.recover();
        });
        segment.collect();
        let taken = segment.take(FIRST);
        freer.join().unwrap();
        recoverer.join().unwrap();
        let _held = segment.lock.lock().unwrap();
        segment.recover();
        let shown = segment.word.load(Acquire);
        assert!(taken.is_none() || shown == 0, "a block was taken that the word shows");
        assert_eq!(segment.is_live(0), shown == BLOCKS[0] || taken == Some(0));
    }
}

/// `allocate_into`, killed at each store, while another process reads the word and frees what it finds.
#[test]
fn a_word_shows_a_block_that_is_live_and_filled() {
    interleave_kills(16, |stores| {
        let segment = Segment::with_live(0b10);
        let publisher = spawn(&segment, move |segment| {
            segment.use_block(0, 7);
            die_after(stores);
            let _held = segment.lock.lock().unwrap();
            segment.owners[0].store(FIRST, Relaxed);
            let taken = Published { value: BLOCKS[0], taken: BLOCKS[0], ..Published::of(8, None) };
            segment.publication.write(taken);
            segment.words().take(0b01);
            segment.word.store(taken.value, Release);
            segment.publication.clear();
        });
        let reader = spawn(&segment, |segment| {
            let shown = segment.word.load(Acquire) == BLOCKS[0];
            if shown {
                assert_eq!(segment.read_block(0), 7);
                segment.words().give(0b01).unwrap();
            }
            shown
        });
        publisher.join().unwrap();
        {
            let _held = segment.lock.lock().unwrap();
            segment.recover();
        }
        let freed = reader.join().unwrap();
        assert_eq!(segment.is_live(0), segment.word.load(Acquire) == BLOCKS[0] && !freed);
    });
}
