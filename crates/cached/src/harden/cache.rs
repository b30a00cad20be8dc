//! The caches of threads in front of the shelves: free blocks per class, and the thread's quarantine.
//!
//! The fast path takes no lock: [`Cache::take`] chooses among the blocks of a class, [`Cache::free`] adds one, at once
//! or from the end of the quarantine. Blocks come from the shelf of the class and go back to it in batches. All of it is
//! out of band. A cache is used by its thread alone. In a fork's child the caches of the parent's other threads are lost
//! with their blocks.

use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use heapwright_os::{Lock, Refused};

use super::draw::{CHOICES, Draw};
use super::free_block::FreeBlock;
use super::quarantine::Queue;
use super::table::Table;
use super::{Measures, shelf};
use crate::classes::{CLASSES, size_of_class};
use crate::heap::Owned;
use crate::mode::measures;
use crate::tables::MAX_HEAPS;

/// The number of blocks in a thread's quarantine, and of their bytes, at most.
const MOST_WAITING: usize = 1024;
const MOST_WAITING_BYTES: usize = 1 << 20;

/// The numbers of blocks of a class in a cache.
#[derive(Clone, Copy)]
struct Limits {
    /// To choose among: the cache is refilled when it has no more.
    least: u8,
    /// That come from the shelf, or go there, together.
    batch: u8,
    /// At most. 0 where freed blocks go to the shelf one by one.
    most: u8,
}

impl Limits {
    /// The blocks of a batch, and their bytes, at most. A cache has room for two batches.
    const BATCH: usize = 16;
    const BATCH_BYTES: usize = 8 << 10;

    /// The longest blocks among which caches choose at random; [`CHOICES`] of longer ones would be too much memory.
    const LONGEST_DRAWN: usize = 1 << 10;

    const fn of(class: usize, is_drawn: bool) -> Limits {
        let size = size_of_class(class);
        let least = if is_drawn && size <= Limits::LONGEST_DRAWN { CHOICES } else { 0 };
        let batch = match Limits::BATCH_BYTES / size {
            0 => 1,
            batch if batch > Limits::BATCH => Limits::BATCH,
            batch => batch,
        };
        let most = match size {
            // The shelf draws among more than a batch.
            size if is_drawn && size > Limits::LONGEST_DRAWN => 0,
            size if size > 2 * Limits::BATCH_BYTES => 1,
            _ => least + 2 * batch,
        };
        Limits { least: least as u8, batch: batch as u8, most: most as u8 }
    }

    const fn of_all(are_drawn: bool) -> [Limits; CLASSES] {
        let mut limits = [Limits { least: 0, batch: 0, most: 0 }; CLASSES];
        let mut class = 0;
        while class < CLASSES {
            limits[class] = Limits::of(class, are_drawn);
            class += 1;
        }
        limits
    }
}

static DRAWN: [Limits; CLASSES] = Limits::of_all(true);
static IN_ORDER: [Limits; CLASSES] = Limits::of_all(false);

/// The place of each class's first block in a cache; the last is the end of all.
const PLACES: [u16; CLASSES + 1] = {
    let mut places = [0; CLASSES + 1];
    let mut class = 0;
    while class < CLASSES {
        let (drawn, in_order) = (Limits::of(class, true), Limits::of(class, false));
        let filled = drawn.least + drawn.batch;
        let most = if drawn.most > in_order.most { drawn.most } else { in_order.most };
        places[class + 1] = places[class] + if filled > most { filled } else { most } as u16;
        class += 1;
    }
    places
};

/// The cache of a thread. All zeros is one that is not in use yet.
pub(super) struct Cache {
    limits: Option<&'static [Limits; CLASSES]>,
    draw: Draw,
    counts: [u8; CLASSES],
    blocks: [FreeBlock; PLACES[CLASSES] as usize],
    waiting: Queue<FreeBlock, MOST_WAITING>,
}

/// The table of caches, by the numbers of heaps. It is extended behind no other lock, hence held across forks.
pub(super) static TABLE: Lock<Table> = Lock::new(Table::NONE);

/// Where they lie, and how many of them are mapped.
static CACHES: AtomicPtr<Cache> = AtomicPtr::new(null_mut());
static COVERED: AtomicUsize = AtomicUsize::new(0);

/// Claims addresses for the caches of all threads.
pub(super) fn init() -> Result<(), Refused> {
    let caches = TABLE.lock().claim(MAX_HEAPS * size_of::<Cache>())?;
    CACHES.store(caches.cast(), Ordering::Relaxed);
    Ok(())
}

/// Returns the cache of a thread, by its heap; `None` when there is no memory for one.
#[inline]
pub(super) fn cache_of(heap: Owned) -> Option<&'static mut Cache> {
    let owner = heap.owner() as usize;
    if owner >= COVERED.load(Ordering::Acquire) {
        return extend(heap);
    }
    // SAFETY: the table is mapped up to this cache, zeros are one, and the heap is this thread's: it is used by this
    // function's callers only, which do not call one another.
    Some(unsafe { &mut *CACHES.load(Ordering::Relaxed).add(owner) })
}

#[cold]
#[inline(never)]
fn extend(heap: Owned) -> Option<&'static mut Cache> {
    let bytes = TABLE.lock().cover((heap.owner() as usize + 1) * size_of::<Cache>()).ok()?;
    COVERED.fetch_max(bytes / size_of::<Cache>(), Ordering::Release);
    cache_of(heap)
}

impl Cache {
    /// Takes a free block of a class; `None` when there is no memory.
    #[inline]
    pub(super) fn take(&mut self, class: usize) -> Option<NonNull<u8>> {
        let least = match self.limits {
            Some(limits) if self.counts[class] > limits[class].least => limits[class].least,
            _ => self.refill(class),
        };
        let last = usize::from(self.counts[class]).checked_sub(1)?;
        let at = if least == 0 { last } else { self.draw.below(last + 1) };
        let blocks = self.blocks_of(class);
        let taken = blocks[at];
        blocks[at] = blocks[last];
        self.counts[class] = last as u8;
        taken.block()
    }

    /// Frees a block of a class, by way of the quarantine if there is one.
    #[inline]
    pub(super) fn free(&mut self, block: NonNull<u8>, class: usize) {
        let freed = FreeBlock::new(block, class);
        if !measures().have(Measures::QUARANTINE) {
            return self.put(freed);
        }
        while let Some(first) = self.waiting.make_room(size_of_class(class), MOST_WAITING_BYTES) {
            self.put(first);
        }
        self.waiting.add(freed);
    }

    /// Makes a block ready to be taken again.
    #[inline]
    fn put(&mut self, block: FreeBlock) {
        let class = block.class();
        let most = self.limits.map_or(0, |limits| limits[class].most);
        if self.counts[class] >= most {
            return self.put_on_shelf(block, most);
        }
        let at = usize::from(self.counts[class]);
        self.blocks_of(class)[at] = block;
        self.counts[class] += 1;
    }

    /// Does the same where the cache has no room: with a batch.
    #[inline(never)]
    fn put_on_shelf(&mut self, block: FreeBlock, most: u8) {
        let class = block.class();
        shelf::put(class, &[block]);
        if most != 0 {
            self.shrink(class, usize::from(IN_ORDER[class].batch));
        }
    }

    /// Puts so many blocks of a class on the shelf.
    fn shrink(&mut self, class: usize, blocks: usize) {
        let count = usize::from(self.counts[class]);
        let kept = count.saturating_sub(blocks);
        self.counts[class] = kept as u8;
        shelf::put(class, &self.blocks_of(class)[kept..count]);
    }

    /// Adds a batch from the shelf as far as there is memory; returns how many blocks there should be to choose among.
    #[inline(never)]
    fn refill(&mut self, class: usize) -> u8 {
        let limits = self.limits.get_or_insert_with(|| {
            self.draw = Draw::new();
            if measures().have(Measures::RANDOM) { &DRAWN } else { &IN_ORDER }
        });
        let Limits { least, batch, .. } = limits[class];
        let count = usize::from(self.counts[class]);
        let filled = usize::from(least + batch);
        let added = shelf::take(class, &mut self.blocks_of(class)[count..filled]);
        self.counts[class] += added as u8;
        least
    }

    /// Puts all blocks on the shelves, those in quarantine too.
    pub(super) fn flush(&mut self) {
        while let Some(first) = self.waiting.take() {
            self.put(first);
        }
        for class in 0..CLASSES {
            if self.counts[class] != 0 {
                self.shrink(class, usize::MAX);
            }
        }
    }

    fn blocks_of(&mut self, class: usize) -> &mut [FreeBlock] {
        &mut self.blocks[usize::from(PLACES[class])..usize::from(PLACES[class + 1])]
    }
}
