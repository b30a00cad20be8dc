//! The caches of threads in front of the shelves: free blocks per class, and the thread's quarantine.
//!
//! The fast path takes no lock: [`Cache::take`] chooses among the blocks of a class, [`Cache::free`] adds one, at once
//! or from the end of the quarantine. Blocks come from the shelf of the class and go back to it in batches. All of it
//! is out of band. A cache is used by its thread alone. In a fork's child the caches of the parent's other threads are
//! lost with their blocks.

use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

use heapwright_os::{Lock, Refused, prefetch};

use super::draw::{CHOICES, Draw, LONGEST_DRAWN};
use super::free_block::FreeBlock;
use super::quarantine::{Queue, Waiting};
use super::table::Table;
use super::{Measures, shelf};
use heapwright_slabs::classes::{CLASSES, size_of_class};
use heapwright_slabs::heap::{Owned, ThreadHeap};
use heapwright_slabs::mode::measures;
use heapwright_slabs::tables::MAX_HEAPS;

/// The number of blocks in a thread's quarantine, and of their bytes, at most.
const MOST_WAITING: usize = 1024;
const MOST_WAITING_BYTES: usize = 1 << 20;

/// The free blocks of one class in a cache: how many there are, and how many there may be.
#[derive(Clone, Copy)]
struct Bin {
    count: u8,
    /// The number among which one is chosen: with fewer or as many, the bin is refilled. 0 where choices are not
    /// random.
    least: u8,
    /// The number that come from the shelf or go there together.
    batch: u8,
    /// The most that there may be. 0 where freed blocks go to the shelf one by one.
    most: u8,
    /// The place of its first block among all blocks of the cache.
    place: u32,
}

/// The blocks of a batch and their bytes, at most. A cache has room for two batches.
const BATCH: usize = 16;
const BATCH_BYTES: usize = 8 << 10;

impl Bin {
    const fn empty(class: usize, is_drawn: bool, place: u32) -> Bin {
        let size = size_of_class(class);
        let least = if is_drawn && size <= LONGEST_DRAWN { CHOICES } else { 0 };
        let batch = match BATCH_BYTES / size {
            0 => 1,
            batch if batch > BATCH => BATCH,
            batch => batch,
        };
        let most = match size {
            // The shelf draws among more than a batch.
            size if is_drawn && size > LONGEST_DRAWN => 0,
            size if size > 2 * BATCH_BYTES => 1,
            _ => least + 2 * batch,
        };
        Bin { count: 0, least: least as u8, batch: batch as u8, most: most as u8, place }
    }

    /// The number of blocks that there is room for.
    const fn room(&self) -> u32 {
        let filled = self.least + self.batch;
        if filled > self.most { filled as u32 } else { self.most as u32 }
    }

    const fn empty_of_all(are_drawn: bool) -> [Bin; CLASSES] {
        let mut bins = [Bin::empty(0, are_drawn, 0); CLASSES];
        let mut class = 1;
        while class < CLASSES {
            bins[class] = Bin::empty(class, are_drawn, bins[class - 1].place + bins[class - 1].room());
            class += 1;
        }
        bins
    }
}

static DRAWN: [Bin; CLASSES] = Bin::empty_of_all(true);
static IN_ORDER: [Bin; CLASSES] = Bin::empty_of_all(false);

/// The number of blocks that a cache has room for.
const ROOM: usize = {
    let (drawn, in_order) = (end_of(Bin::empty_of_all(true)), end_of(Bin::empty_of_all(false)));
    if drawn > in_order { drawn } else { in_order }
};

const fn end_of(bins: [Bin; CLASSES]) -> usize {
    let last = bins[CLASSES - 1];
    (last.place + last.room()) as usize
}

/// The cache of a thread.
pub(super) struct Cache {
    draw: Draw,
    bins: [Bin; CLASSES],
    waiting: Queue<FreeBlock, MOST_WAITING>,
    blocks: [FreeBlock; ROOM],
}

/// The table of caches, by the numbers of heaps. It is extended behind no other lock, hence held across forks.
pub(super) static TABLE: Lock<Table> = Lock::new(Table::NONE);

/// Where they lie.
static CACHES: AtomicPtr<Cache> = AtomicPtr::new(null_mut());

/// Claims addresses for the caches of all threads.
pub(super) fn init() -> Result<(), Refused> {
    let caches = TABLE.lock().claim(MAX_HEAPS * size_of::<Cache>())?;
    CACHES.store(caches.cast(), Ordering::Relaxed);
    Ok(())
}

/// Returns the cache of a thread, by its heap, if it has one.
#[inline(always)]
pub(super) fn existing(heap: ThreadHeap) -> Option<&'static mut Cache> {
    // SAFETY: the heap is this thread's, and so is its cache: it is used by this function's callers only, which do not
    // call one another.
    unsafe { heap.hardened().load(Ordering::Relaxed).cast::<Cache>().as_mut() }
}

/// Returns the cache of a thread, by its heap; `None` when there is no memory for one.
pub(super) fn of(heap: Owned) -> Option<&'static mut Cache> {
    existing(heap.here()).or_else(|| make(heap))
}

#[cold]
#[inline(never)]
fn make(heap: Owned) -> Option<&'static mut Cache> {
    // The numbers of heaps begin at 1.
    let place = heap.owner() as usize - 1;
    TABLE.lock().cover((place + 1) * size_of::<Cache>()).ok()?;
    // SAFETY: the table is mapped up to the end of this cache; zeros are one, and the heap is this thread's.
    let cache = unsafe { &mut *CACHES.load(Ordering::Relaxed).add(place) };
    cache.draw = Draw::new();
    cache.bins = if measures().have(Measures::RANDOM) { DRAWN } else { IN_ORDER };
    heap.here().hardened().store((&raw mut *cache).cast(), Ordering::Relaxed);
    Some(cache)
}

impl Cache {
    /// Takes a free block of a class; `None` when there is no memory.
    #[inline(always)]
    pub(super) fn take(&mut self, class: usize) -> Option<FreeBlock> {
        if self.bins[class].count <= self.bins[class].least {
            self.refill(class);
        }
        let bin = &mut self.bins[class];
        bin.count = bin.count.checked_sub(1)?;
        let bin = *bin;
        let taken = self.blocks[bin.place as usize + usize::from(bin.count)];
        self.draw_next(bin);
        Some(taken)
    }

    /// Chooses the block of a bin that is taken next, if choices are random: it is put last, and on its way into the
    /// processor's cache until then.
    #[inline(always)]
    fn draw_next(&mut self, bin: Bin) {
        if bin.least == 0 || bin.count == 0 {
            return;
        }
        let (first, count) = (bin.place as usize, usize::from(bin.count));
        let drawn = first + self.draw.below(count);
        self.blocks.swap(drawn, first + count - 1);
        if let Some(block) = self.blocks[first + count - 1].block() {
            prefetch(block.as_ptr());
            prefetch(block.as_ptr().wrapping_add(64));
        }
    }

    /// Frees a block of a class, by way of the quarantine if there is one.
    #[inline(always)]
    pub(super) fn free(&mut self, freed: FreeBlock, measures: Measures) {
        if !measures.have(Measures::QUARANTINE) {
            return self.put(freed);
        }
        while let Some(first) = self.waiting.make_room(freed.bytes(), MOST_WAITING_BYTES) {
            self.put(first);
        }
        self.waiting.add(freed);
    }

    /// Makes a block ready to be taken again.
    #[inline]
    fn put(&mut self, block: FreeBlock) {
        let bin = &mut self.bins[block.class()];
        if bin.count >= bin.most {
            return self.put_on_shelf(block);
        }
        let end = bin.place as usize + usize::from(bin.count);
        bin.count += 1;
        let is_drawn = bin.least != 0 && bin.count > 1;
        self.blocks[end] = block;
        if is_drawn {
            // The block that was drawn to be the next stays it.
            self.blocks.swap(end - 1, end);
        }
    }

    /// Does the same where the cache has no room: with a batch.
    #[inline(never)]
    fn put_on_shelf(&mut self, block: FreeBlock) {
        let Bin { batch, most, .. } = self.bins[block.class()];
        shelf::put(block.class(), &[block]);
        if most != 0 {
            self.shrink(block.class(), batch);
        }
    }

    /// Puts up to `most` blocks of a class on the shelf.
    fn shrink(&mut self, class: usize, most: u8) {
        let bin = &mut self.bins[class];
        let count = usize::from(bin.count);
        bin.count = bin.count.saturating_sub(most);
        let (first, kept) = (bin.place as usize, usize::from(bin.count));
        shelf::put(class, &self.blocks[first + kept..first + count]);
    }

    /// Adds a batch from the shelf, as far as there is memory.
    #[cold]
    #[inline(never)]
    fn refill(&mut self, class: usize) {
        let bin = &mut self.bins[class];
        let (first, count) = (bin.place as usize, usize::from(bin.count));
        let filled = usize::from(bin.least + bin.batch);
        let added = shelf::take(class, &mut self.blocks[first + count..first + filled]);
        // The lowest is taken first.
        self.blocks[first + count..first + count + added].reverse();
        bin.count += added as u8;
        let bin = *bin;
        self.draw_next(bin);
    }

    /// Puts all blocks on the shelves, those in quarantine too.
    pub(super) fn flush(&mut self) {
        while let Some(first) = self.waiting.take() {
            self.put(first);
        }
        for class in 0..CLASSES {
            if self.bins[class].count != 0 {
                self.shrink(class, u8::MAX);
            }
        }
    }
}
