//! The caches of threads in front of the shelves: free blocks per class, and the thread's quarantine.
//!
//! The fast path takes no lock: [`Cache::take_at_once`] takes the block of a class that was chosen, [`Cache::free`]
//! adds one, at once or from the end of the quarantine. Blocks come from the shelf of the class and go back to it in
//! batches. All of it is out of band. A cache is used by its thread alone. In a fork's child the caches of the parent's
//! other threads are lost with their blocks.

use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, Ordering};

use heapwright_os::{Lock, Refused, prefetch};

use super::draw::{CHOICES, Draw};
use super::free_block::FreeBlock;
use super::quarantine::{Queue, Waiting};
use super::table::Table;
use super::{Measures, long, shelf};
use heapwright_slabs::classes::{CLASSES, SLAB, size_of_class};
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
    /// The most that there may be. 0 in a closed bin.
    most: u8,
    /// The place of its first block among all blocks of the cache.
    place: u32,
}

/// The blocks of a batch and their bytes, at most, except that a batch is never empty. A bin has room for two batches.
const BATCH: usize = 16;
const BATCH_BYTES: usize = 16 << 10;

/// Where choices are random, a bin is closed until this many blocks were drawn from the shelf one by one: to fill it
/// with enough blocks to choose among, and to empty it when the thread ends, takes as long as some ten draws.
const CLOSED: u8 = 16;

impl Bin {
    const fn empty(class: usize, is_drawn: bool, place: u32) -> Bin {
        let size = size_of_class(class);
        // A slab of blocks above 2 KiB has fewer.
        let choices = if SLAB / size < CHOICES { SLAB / size } else { CHOICES };
        let least = if is_drawn { choices } else { 0 };
        let batch = match BATCH_BYTES / size {
            0 => 1,
            batch if batch > BATCH => BATCH,
            batch => batch,
        };
        Bin { count: 0, least: least as u8, batch: batch as u8, most: (least + 2 * batch) as u8, place }
    }

    /// The number of blocks that there is room for.
    const fn room(&self) -> u32 {
        self.most as u32
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
    /// How many blocks of each class were drawn from the shelf while the bin was closed.
    drawn: [u8; CLASSES],
    waiting: Queue<FreeBlock, MOST_WAITING>,
    blocks: [*mut u8; ROOM],
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
    cache.close();
    heap.here().hardened().store((&raw mut *cache).cast(), Ordering::Relaxed);
    Some(cache)
}

impl Cache {
    /// Takes a free block of a class; `None` when there is no memory.
    pub(super) fn take(&mut self, class: usize, measures: Measures) -> Option<NonNull<u8>> {
        if !self.has_choice(class) {
            if let Some(block) = self.draw_from_shelf(class) {
                return Some(block);
            }
            self.refill(class);
        }
        (self.bins[class].count != 0).then(|| self.pop(class, measures))
    }

    /// Draws a block from the shelf as long as the bin of the class is closed. It is opened by `None`.
    fn draw_from_shelf(&mut self, class: usize) -> Option<NonNull<u8>> {
        let bin = &mut self.bins[class];
        if bin.most != 0 {
            return None;
        }
        let drawn = if self.drawn[class] < CLOSED { shelf::draw(class) } else { None };
        self.drawn[class] += 1;
        if drawn.is_none() {
            bin.most = DRAWN[class].most;
        }
        drawn
    }

    /// Takes a free block of a class, as [`Cache::take`] does; `None` when the bin has to be refilled.
    #[inline(always)]
    pub(super) fn take_at_once(&mut self, class: usize, measures: Measures) -> Option<NonNull<u8>> {
        self.has_choice(class).then(|| self.pop(class, measures))
    }

    /// Returns whether a bin has enough blocks to choose among when one is taken.
    #[inline(always)]
    fn has_choice(&self, class: usize) -> bool {
        self.bins[class].count > self.bins[class].least
    }

    /// Takes the block that was drawn off a bin that is not empty, and draws the next.
    #[inline(always)]
    fn pop(&mut self, class: usize, measures: Measures) -> NonNull<u8> {
        let bin = &mut self.bins[class];
        bin.count = bin.count.wrapping_sub(1);
        let bin = *bin;
        // SAFETY: the bin had one block more, and none is null.
        let taken = unsafe { NonNull::new_unchecked(*self.block(bin, usize::from(bin.count))) };
        if measures.have(Measures::RANDOM) {
            self.draw_next(bin);
        }
        taken
    }

    /// Returns the place of a block of a bin.
    ///
    /// # Safety
    /// The bin has room for more than `at` blocks.
    #[inline(always)]
    unsafe fn block(&mut self, bin: Bin, at: usize) -> *mut *mut u8 {
        // SAFETY: the room of each bin lies in `blocks`, and there is more room than `at`, as this function requires.
        unsafe { self.blocks.as_mut_ptr().add(bin.place as usize + at) }
    }

    /// Draws the block of a bin that is taken next: it is put last, and on its way into the processor's cache until
    /// then.
    #[inline(always)]
    fn draw_next(&mut self, bin: Bin) {
        if bin.count == 0 {
            return;
        }
        let count = usize::from(bin.count);
        let drawn = self.draw.below(count);
        // SAFETY: both are below the number of the bin's blocks.
        let next = unsafe {
            let (drawn, last) = (self.block(bin, drawn), self.block(bin, count - 1));
            drawn.swap(last);
            *last
        };
        prefetch(next);
        prefetch(next.wrapping_add(64));
    }

    /// Frees a block of a class, by way of the quarantine if there is one. Returns `true`, as the calls at its end do.
    #[inline(always)]
    pub(super) fn free(&mut self, block: NonNull<u8>, class: usize, measures: Measures) -> bool {
        if !measures.have(Measures::QUARANTINE) {
            return self.put(block.as_ptr(), class, measures);
        }
        let freed = FreeBlock::new(block, class);
        match self.waiting.exchange(freed, MOST_WAITING_BYTES) {
            Some(first) => self.put(first.block(), first.class(), measures),
            None => self.wait(freed, measures),
        }
    }

    /// Adds a block to the quarantine, from which as many go as have to.
    #[inline(never)]
    fn wait(&mut self, freed: FreeBlock, measures: Measures) -> bool {
        while let Some(first) = self.waiting.make_room(freed.bytes(), MOST_WAITING_BYTES) {
            self.put(first.block(), first.class(), measures);
        }
        self.waiting.add(freed);
        true
    }

    /// Makes a block ready to be taken again.
    #[inline(always)]
    fn put(&mut self, block: *mut u8, class: usize, measures: Measures) -> bool {
        let bin = &mut self.bins[class];
        if bin.count >= bin.most {
            return self.put_on_shelf(block, class);
        }
        let count = usize::from(bin.count);
        bin.count += 1;
        let bin = *bin;
        // SAFETY: there is room for one block more than `count`.
        unsafe {
            let end = self.block(bin, count);
            if measures.have(Measures::RANDOM) && count != 0 {
                // The block that was drawn to be the next stays it.
                end.write(*end.sub(1));
                end.sub(1).write(block);
            } else {
                end.write(block);
            }
        }
        true
    }

    /// Does the same where the bin has no room: with a batch.
    #[inline(never)]
    fn put_on_shelf(&mut self, block: *mut u8, class: usize) -> bool {
        shelf::put(class, &[block]);
        if self.bins[class].most != 0 {
            self.shrink(class, self.bins[class].batch);
        }
        true
    }

    /// Puts up to `most` blocks of a class on the shelf.
    fn shrink(&mut self, class: usize, most: u8) {
        let bin = &mut self.bins[class];
        let count = usize::from(bin.count);
        bin.count = bin.count.saturating_sub(most);
        let (first, kept) = (bin.place as usize, usize::from(bin.count));
        shelf::put(class, &self.blocks[first + kept..first + count]);
    }

    /// Adds a batch from the shelf, as far as there is memory: where there is none, after everything that is free was
    /// given back.
    #[cold]
    #[inline(never)]
    fn refill(&mut self, class: usize) {
        self.add_batch(class);
        if self.bins[class].count == 0 {
            self.flush();
            long::release_waiting();
            shelf::trim();
            if self.draw.is_random() {
                self.bins[class].most = DRAWN[class].most;
            }
            self.add_batch(class);
        }
    }

    /// Adds what the shelf has, up to a batch.
    fn add_batch(&mut self, class: usize) {
        let bin = &mut self.bins[class];
        let (first, count) = (bin.place as usize, usize::from(bin.count));
        let filled = usize::from(bin.least + bin.batch);
        let added = shelf::take(class, &mut self.blocks[first + count..first + filled]);
        // The lowest is taken first.
        self.blocks[first + count..first + count + added].reverse();
        bin.count += added as u8;
        let bin = *bin;
        if bin.least != 0 {
            self.draw_next(bin);
        }
    }

    /// Puts all blocks on the shelves, those in quarantine too.
    pub(super) fn flush(&mut self) {
        if self.draw.is_random() {
            // Blocks that waited go by batches.
            self.bins.iter_mut().zip(&DRAWN).for_each(|(bin, open)| bin.most = open.most);
        }
        while let Some(first) = self.waiting.take() {
            self.put(first.block(), first.class(), measures());
        }
        for class in 0..CLASSES {
            if self.bins[class].count != 0 {
                self.shrink(class, u8::MAX);
            }
        }
        self.close();
    }

    /// Closes all bins, which are empty, if choices are random.
    fn close(&mut self) {
        if self.draw.is_random() {
            self.drawn = [0; CLASSES];
            self.bins.iter_mut().for_each(|bin| bin.most = 0);
        }
    }
}
