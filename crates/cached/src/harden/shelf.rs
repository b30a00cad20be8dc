//! The slabs of each class, behind a lock per class. Blocks are taken and put back in batches.

use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicIsize, AtomicPtr, AtomicUsize, Ordering};

use heapwright_os::{ForkPass, Lock, PageRange, PurgeBatch, Refused, Reservation, page_size, round_to_pages};

use super::draw::{CHOICES, Draw};
use super::record::{Past, give_run, take_run};
use super::slab::Slab;
use super::span::{self, Kind};
use super::span_pages;
use super::{Measures, stock};
use heapwright_slabs::arena::ARENA;
use heapwright_slabs::classes::{CLASSES, SLAB, size_of_class};
use heapwright_slabs::mode::measures;
use heapwright_slabs::slab_list::{Node, Nodes, SlabList};

/// The slabs of a class.
struct Shelf {
    /// Those that have blocks to give.
    listed: SlabList,
    own: OwnSlabs,
    /// The number of slabs, and of their idle pages.
    slabs: u32,
    idle: u32,
    draw: Draw,
}

/// The number of slabs of all classes, and of their idle pages; changed behind the lock of a class.
static SLABS: AtomicIsize = AtomicIsize::new(0);
static IDLE: AtomicIsize = AtomicIsize::new(0);

/// Number of pages that were purged so far.
static PURGED: AtomicUsize = AtomicUsize::new(0);

/// The number of idle pages that are kept at least.
const LEAST_KEPT: isize = 512;

/// The part of all slabs that is kept idle, if that is more.
const KEPT_PART: isize = 8;

/// The longest blocks that are drawn one by one from slabs with [`CHOICES`] of them only. Slabs have few longer ones.
const LONGEST_AMONG_MANY: usize = 1 << 10;

/// A run of idle pages of a slab.
#[derive(Clone, Copy, Default)]
struct Run {
    number: u32,
    first: u8,
    end: u8,
}

/// The slabs of the class whose lock is held.
struct OwnSlabs(());

impl OwnSlabs {
    fn slab(&mut self, number: u32) -> &mut Slab {
        // SAFETY: a shelf has numbers of slabs of its class only, and this value is behind the class's lock.
        unsafe { &mut (*span::span(number)).slab }
    }
}

impl Nodes for OwnSlabs {
    fn node(&mut self, number: u32) -> &mut Node {
        &mut self.slab(number).node
    }
}

/// Where there is one for each class; not in the library's own data, which every program has in memory.
static SHELVES: AtomicPtr<Lock<Shelf>> = AtomicPtr::new(null_mut());

/// Makes them.
pub(super) fn init() -> Result<(), Refused> {
    let bytes = round_to_pages(CLASSES * size_of::<Lock<Shelf>>()).ok_or(Refused)?;
    let mut room = Reservation::claim_table(bytes)?;
    room.extend(bytes)?;
    let shelves = room.base().cast::<Lock<Shelf>>();
    for class in 0..CLASSES {
        let shelf = Shelf { listed: SlabList::EMPTY, own: OwnSlabs(()), slabs: 0, idle: 0, draw: Draw::new() };
        // SAFETY: the room is long enough, and only this thread uses it yet.
        unsafe { shelves.add(class).write(Lock::new(shelf)) };
    }
    SHELVES.store(shelves.as_ptr(), Ordering::Release);
    // They are needed for as long as the process.
    core::mem::forget(room);
    Ok(())
}

fn shelves() -> &'static [Lock<Shelf>] {
    let shelves = SHELVES.load(Ordering::Acquire);
    // SAFETY: where there are any, there is one for each class, for as long as the process.
    if shelves.is_null() { &[] } else { unsafe { core::slice::from_raw_parts(shelves, CLASSES) } }
}

/// Takes as many blocks of a class as there is room for in `taken`; returns how many. They are fewer when there is no
/// memory.
pub(super) fn take(class: usize, taken: &mut [*mut u8]) -> usize {
    let Some(shelf) = shelves().get(class) else { return 0 };
    shelf.lock().take(class, taken)
}

/// Takes a block of a class. `None` when there is no memory.
pub(super) fn take_one(class: usize) -> Option<NonNull<u8>> {
    let mut taken = [null_mut()];
    if take(class, &mut taken) == 0 {
        trim();
        take(class, &mut taken);
    }
    NonNull::new(taken[0])
}

/// Takes a block of a class that is drawn from a slab with choice enough; `None` where none has, or there is no memory.
pub(super) fn draw(class: usize) -> Option<NonNull<u8>> {
    shelves().get(class)?.lock().draw(class)
}

/// Puts blocks of a class back that are not in use any more.
pub(super) fn put(class: usize, blocks: &[*mut u8]) {
    if let Some(shelf) = shelves().get(class) {
        shelf.lock().put(blocks);
    }
}

/// Purges idle pages, and frees slabs that are not in use.
pub(super) fn trim() {
    shelves().iter().for_each(|shelf| shelf.lock().trim());
    core::iter::from_fn(|| stock::take(&mut Draw::Lowest)).for_each(remove);
}

/// Returns the bytes of idle pages that were purged so far, whatever the reason.
pub(super) fn purged() -> usize {
    PURGED.load(Ordering::Relaxed) * page_size()
}

/// Takes all locks for a fork.
pub(super) fn hold(pass: ForkPass<'_>) {
    for shelf in shelves() {
        shelf.hold_for_fork(pass);
    }
    stock::hold(pass);
}

/// Frees them after the fork.
///
/// # Safety
/// This thread, or the one that it is a copy of, called [`hold`].
pub(super) unsafe fn let_go() {
    // SAFETY: this thread, or the one that it is a copy of, called `hold`, as this function requires.
    unsafe {
        stock::let_go();
        shelves().iter().for_each(|shelf| shelf.let_go_after_fork());
    }
}

impl Shelf {
    fn take(&mut self, class: usize, taken: &mut [*mut u8]) -> usize {
        let (before, size) = (self.idle, size_of_class(class));
        let mut count = 0;
        while count < taken.len() {
            let Some(number) = self.listed.first().or_else(|| self.acquire(class)) else { break };
            // Caches choose among these.
            count += self.take_from(number, size, &mut taken[count..]);
        }
        self.count_idle(before);
        count
    }

    /// Takes blocks of `size` bytes from a slab that has some, until `taken` is full or it has no more; returns how
    /// many.
    fn take_from(&mut self, number: u32, size: usize, taken: &mut [*mut u8]) -> usize {
        let Shelf { listed, own, draw, idle, .. } = self;
        let (slab, start) = (own.slab(number), ARENA.start_of(number));
        let mut count = 0;
        while count < taken.len() && slab.has_room() {
            let mut places = taken[count..].iter_mut();
            count += slab.take(places.len(), draw, idle, |number| {
                if let Some(place) = places.next() {
                    // SAFETY: the block lies in the slab.
                    *place = unsafe { start.add(number * size) };
                }
            });
        }
        if !slab.has_room() {
            listed.remove(number, own);
        }
        count
    }

    fn draw(&mut self, class: usize) -> Option<NonNull<u8>> {
        let (before, size, mut taken) = (self.idle, size_of_class(class), [null_mut()]);
        let number = match self.listed.first() {
            Some(first) => self.find_choice(first, size)?,
            None => self.acquire(class)?,
        };
        self.take_from(number, size, &mut taken);
        self.count_idle(before);
        NonNull::new(taken[0])
    }

    /// Returns the first of a few listed slabs, from one on, that has enough blocks of `size` bytes to draw among.
    fn find_choice(&mut self, first: u32, size: usize) -> Option<u32> {
        /// The slabs that are looked at.
        const SLABS: usize = 4;
        let least = if size <= LONGEST_AMONG_MANY { CHOICES } else { 1 };
        let mut next = Some(first);
        for _ in 0..SLABS {
            let (number, slab) = (next?, self.own.slab(next?));
            if slab.left() >= least {
                return Some(number);
            }
            next = slab.node.next();
        }
        None
    }

    fn put(&mut self, blocks: &[*mut u8]) {
        let before = self.idle;
        for address in blocks.iter().map(|block| block.addr()) {
            let Some(number) = ARENA.number_of(address) else { continue };
            let Shelf { listed, own, idle, .. } = self;
            let slab = own.slab(number);
            slab.put(address % SLAB, idle);
            if !slab.node.is_listed() {
                listed.push(number, own);
            }
            if own.slab(number).is_unused() && self.slabs > 1 {
                self.release(number);
            }
        }
        self.count_idle(before);
        if self.has_much_idle() {
            self.trim();
        }
    }

    /// Adds to the number of idle pages of all classes what this one has more than `before`.
    fn count_idle(&self, before: u32) {
        let change = self.idle as isize - before as isize;
        if change != 0 {
            IDLE.fetch_add(change, Ordering::Relaxed);
        }
    }

    /// Returns whether enough pages are idle to look at every slab of this class.
    fn has_much_idle(&self) -> bool {
        const SLAB_PAGES: isize = 16;
        let kept_of = |slabs: isize| slabs * SLAB_PAGES / KEPT_PART;
        let kept = LEAST_KEPT.max(kept_of(SLABS.load(Ordering::Relaxed)));
        self.idle as isize > kept_of(self.slabs as isize).max(8) && IDLE.load(Ordering::Relaxed) > kept
    }

    /// Gets a new slab, from the stock if there is one; returns its number.
    #[cold]
    fn acquire(&mut self, class: usize) -> Option<u32> {
        let length = span::length_of_slabs();
        let (number, past) = match stock::take(&mut self.draw) {
            Some(number) => (number, Past::Slab),
            None => (ARENA.lock().and_then(|mut arena| span_pages::place(&mut arena, length, 0, 1))?, Past::Unused),
        };
        let Some(run) = take_run(class, past) else {
            remove(number);
            return None;
        };
        // SAFETY: only this thread uses the span.
        unsafe {
            let slab = &raw mut (*span::span(number)).slab;
            let resident = if past == Past::Slab { (*slab).resident() } else { 0 };
            slab.write(Slab::new(class, length, resident));
            (*span::span(number)).run = Some(run);
            self.idle += resident.count_ones();
        }
        span::set_kind(number, Kind::Slab(class));
        self.slabs += 1;
        SLABS.fetch_add(1, Ordering::Relaxed);
        self.listed.push(number, &mut self.own);
        Some(number)
    }

    /// Takes slabs of which no block is in use off the shelf, and purges the idle pages of the others.
    #[cold]
    fn trim(&mut self) {
        let mut next = self.listed.first();
        let (before, mut runs) = (self.idle, PurgeBatch::new());
        while let Some(number) = next {
            let slab = self.own.slab(number);
            next = slab.node.next();
            if slab.is_unused() {
                remove(self.unlist(number));
            } else {
                self.add_idle(number, &mut runs);
            }
        }
        self.purge(&mut runs);
        self.idle = 0;
        self.count_idle(before);
    }

    /// Adds the idle pages of a slab to others; purges these when they are enough.
    fn add_idle(&mut self, number: u32, runs: &mut PurgeBatch<Run>) {
        let (start, mut from) = (ARENA.start_of(number), 0);
        while let Some(pages) = self.own.slab(number).next_idle_run(from)
            && let Some(first) = NonNull::new(start.wrapping_add(pages.start * page_size()))
        {
            from = pages.end;
            let range = PageRange { start: first, length: pages.len() * page_size() };
            if runs.add(range, Run { number, first: pages.start as u8, end: pages.end as u8 }) {
                self.purge(runs);
            }
        }
    }

    /// Purges idle pages.
    fn purge(&mut self, runs: &mut PurgeBatch<Run>) {
        // SAFETY: no block that is out overlaps these pages: the lock is held since they were found idle.
        unsafe {
            runs.purge(|range, run| {
                self.own.slab(run.number).close_all(run.first.into()..run.end.into());
                PURGED.fetch_add(range.length / page_size(), Ordering::Relaxed);
            });
        }
    }

    /// Puts a slab of which no block is in use into the stock, or frees it.
    fn release(&mut self, number: u32) {
        self.idle = self.idle.saturating_sub(self.own.slab(number).resident().count_ones());
        let number = self.unlist(number);
        if !stock::put(number, SLABS.load(Ordering::Relaxed).max(0) as usize) {
            remove(number);
        }
    }

    /// Takes a slab of which no block is in use off the shelf.
    fn unlist(&mut self, number: u32) -> u32 {
        self.listed.remove(number, &mut self.own);
        self.slabs -= 1;
        SLABS.fetch_sub(1, Ordering::Relaxed);
        span::set_kind(number, Kind::Spare);
        // Only now: before, frees find the records of the slab.
        give_run(self.own.slab(number).class(), span::run(number));
        number
    }
}

/// Frees a slab that is on no shelf.
fn remove(number: u32) {
    if measures().have(Measures::ZERO) {
        // SAFETY: the slab is this thread's, and no block of it is in use.
        unsafe { span_pages::verify_clear(number, (*span::span(number)).slab.resident()) };
    }
    if let Some(mut arena) = ARENA.lock() {
        // SAFETY: the slab is this thread's, and no block of it is in use.
        unsafe { span_pages::remove(&mut arena, number) };
    }
}
