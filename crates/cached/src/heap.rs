//! The heap of a thread: a list per class in front, slabs behind.
//!
//! What a program does most touches one line of the heap and the block: `take` pops a list, `give` pushes onto one. Everything
//! else happens when a list is empty (it is filled from a slab) or full (half of it goes back to its slabs).

mod listed;
mod outgoing;
#[cfg(not(all(loom, test)))]
mod seen;

use core::cell::UnsafeCell;
use core::ptr::NonNull;
use core::sync::atomic::Ordering;

use heapwright_os::is_single_threaded;

use crate::classes::{CLASSES, GRAIN, LARGEST, SMALL, SMALL_CLASSES, class_of, small_class_of, substitute_of};
use crate::damage::damaged;
use crate::ground::GROUND;
use crate::heaps::Tenancy;
use crate::inbox::Inbox;
use crate::links::{Beside, Chain, Key, Links};
use crate::list::List;
use crate::long::Kept;
use crate::slab::{Idle, NO_SLAB, PAGE, SLAB, Slab, is_block};
use crate::world::{AtomicU32, only_one, touch};

pub(crate) use self::outgoing::send_at_once;
use self::outgoing::{OUTGOING, Outgoing, tend};

#[cfg(not(all(loom, test)))]
pub use seen::HeapGlance;

/// Whose a slab is and of which class, in one word: the owner above, the class's list below, as its distance from the first in
/// bytes. So what an own slab's entry differs by from that of class 0 leads to the list.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry(u32);

impl Entry {
    const OWNER: u32 = 12;

    pub(crate) const NONE: Entry = Entry(0);

    pub(crate) const fn new(owner: u32, class: usize) -> Entry {
        Entry(owner << Entry::OWNER | (class * size_of::<List>()) as u32)
    }

    pub(crate) const fn from_bits(bits: u32) -> Entry {
        Entry(bits)
    }

    pub(crate) const fn to_bits(self) -> u32 {
        self.0
    }

    /// 0 for none.
    pub(crate) const fn owner(self) -> u32 {
        self.0 >> Entry::OWNER
    }

    pub(crate) const fn class(self) -> usize {
        (self.0 & ((1 << Entry::OWNER) - 1)) as usize / size_of::<List>()
    }
}

const _: () = assert!(CLASSES * size_of::<List>() <= 1 << Entry::OWNER);

/// What a thread's heap consists of. Only its thread touches it, or whoever has the ground for himself while the heap is idle.
#[repr(C)]
pub(crate) struct Local {
    lists: [List; CLASSES],
    base: usize,
    entries: *const AtomicU32,
    key: Key,
    beside: Beside,
    /// The entry of an own slab of class 0.
    mine: Entry,
    /// For each class, the first of the slabs that have blocks to give.
    shelves: [u32; CLASSES],
    outgoing: [Outgoing; OUTGOING],
    idle: Idle,
    slabs: u32,
    /// An idle heap to which blocks were handed over, until it has been tended; 0 for none.
    neglected: u32,
}

/// A heap, which stays where it is for ever.
#[repr(C, align(64))]
pub(crate) struct Heap {
    local: UnsafeCell<Local>,
    /// Long blocks. Only its thread touches them, or whoever works on an idle heap.
    kept: UnsafeCell<Kept>,
    inbox: Inbox,
    owner: u32,
    tenancy: Tenancy,
}

impl Heap {
    /// How far heaps are apart in bytes: each has a page, so that threads share none.
    pub(crate) const STEP: usize = 4 << 10;

    /// Where in its page a heap begins. Processors that compare the last 12 bits of addresses take what was stored in a block for
    /// what is loaded from a list, and wait, when these agree. At the page's start a class's list would be where the second
    /// block of its slab is; here it is where no block among the first two is.
    pub(crate) const AT: usize = 1216;
}

const _: () = assert!(Heap::AT + size_of::<Heap>() <= Heap::STEP && Heap::AT / GRAIN > SMALL_CLASSES);

// SAFETY: what is not atomic is touched as `Local` says; the owner never changes, and the tenancy only behind the ground's lock.
unsafe impl Sync for Heap {}

only_one! {
/// The heap of a thread that has none yet: all of its lists are empty, and no block is its own.
pub(crate) static EMPTY: Heap = Heap {
    local: UnsafeCell::new(Local::over(usize::MAX / 2, core::ptr::null(), Key(0), Beside::NOWHERE, 0)),
    kept: UnsafeCell::new(Kept::NOTHING),
    inbox: Inbox::new(),
    owner: 0,
    tenancy: Tenancy::new(),
};
}

impl Heap {
    /// Makes the heap of `owner`.
    ///
    /// # Safety
    /// The place is zero, long enough and nobody's.
    pub(crate) unsafe fn make(place: *mut Heap, owner: u32) {
        let local = Local::over(GROUND.base().addr(), GROUND.entries(), GROUND.key(), GROUND.beside(), owner);
        // SAFETY: the caller's promise.
        unsafe {
            place.write(Heap {
                local: UnsafeCell::new(local),
                kept: UnsafeCell::new(Kept::NOTHING),
                inbox: Inbox::new(),
                owner,
                tenancy: Tenancy::new(),
            });
        }
    }

    pub(crate) fn owner(&self) -> u32 {
        self.owner
    }

    #[inline(always)]
    fn local(&self) -> *mut Local {
        if self.owner != 0 {
            touch(self.local.get());
        }
        self.local.get()
    }

    /// The long blocks that are kept for the thread.
    pub(crate) fn kept(&self) -> *mut Kept {
        self.kept.get()
    }

    pub(crate) fn tenancy(&self) -> &Tenancy {
        touch(&raw const self.tenancy);
        &self.tenancy
    }

    /// Takes a small block from its list; `None` when that is empty.
    ///
    /// # Safety
    /// This is the calling thread's heap.
    #[inline(always)]
    pub(crate) unsafe fn take(&self, size: usize) -> Option<NonNull<u8>> {
        if size > SMALL {
            return None;
        }
        let local = self.local();
        // SAFETY: the caller's promise; there is a list for each small class.
        unsafe {
            let list = (&raw mut (*local).lists).cast::<List>().add(small_class_of(size));
            (*list).pop_small((*local).key)
        }
    }

    /// Takes a longer block that has a class from its list; `None` when that is empty.
    ///
    /// # Safety
    /// As [`Heap::take`].
    #[inline]
    pub(crate) unsafe fn take_medium(&self, size: usize) -> Option<NonNull<u8>> {
        if size <= SMALL || size > LARGEST {
            return None;
        }
        let local = self.local();
        // SAFETY: the caller's promise; there is a list for each class.
        unsafe {
            let list = (&raw mut (*local).lists).cast::<List>().add(class_of(size));
            (*list).pop_medium((*local).beside)
        }
    }

    /// Puts a small block of at least `size` bytes onto its list; returns whether it is one of this heap. What was freed last
    /// is not taken once more.
    ///
    /// # Safety
    /// This is the calling thread's heap; if `block` is a block, nobody uses it any more.
    #[inline(always)]
    pub(crate) unsafe fn give(&self, block: *mut u8, size: usize) -> bool {
        const { assert!(size_of::<List>() == GRAIN, "a small block is as long as its list is far from the first") };
        let local = self.local();
        // SAFETY: the caller's promise; there is a list for each class.
        unsafe {
            let Some(distance) = (*local).distance_of(block) else { return false };
            if distance < size {
                return false;
            }
            let list = (&raw mut (*local).lists).byte_add(distance).cast::<List>();
            let first = (*list).first();
            if first == block {
                return false;
            }
            (*local).key.link(block, first);
            if (*list).pushed(block) {
                overflow(block, distance / size_of::<List>());
            }
        }
        true
    }

    /// As [`Heap::give`], for blocks of every class and every heap.
    ///
    /// # Safety
    /// As [`Heap::give`].
    #[inline]
    pub(crate) unsafe fn give_any(&self, block: *mut u8) -> bool {
        let local = self.local();
        // SAFETY: the caller's promise; there is a list for each class.
        unsafe {
            let Some(entry) = (*local).entry_of(block) else { return false };
            if entry.owner() != self.owner {
                return self.give_other(block, entry);
            }
            let class = entry.class();
            let list = (&raw mut (*local).lists).cast::<List>().add(class);
            let first = (*list).first();
            if first == block {
                return false;
            }
            (*local).links(class).link(block, first);
            if (*list).pushed(block) {
                overflow(block, class);
            }
        }
        true
    }

    /// Sends a block to the heap that has it according to `entry`; returns whether it is one.
    ///
    /// # Safety
    /// As [`Heap::give`].
    #[inline]
    unsafe fn give_other(&self, block: *mut u8, entry: Entry) -> bool {
        match NonNull::new(block) {
            Some(block) if entry != Entry::NONE && is_block(block.addr().get() % SLAB, entry.class()) => {
                // SAFETY: the heap is the calling thread's, and has entries to look at: it is not the empty one.
                unsafe { self.send(block, entry) }
            }
            _ => false,
        }
    }

    /// Allocates a block of a class, or of its substitute, by whatever it takes. `None` when there is no memory.
    ///
    /// # Safety
    /// This is the calling thread's heap, and not the empty one.
    pub(crate) unsafe fn allocate(&self, class: usize) -> Option<NonNull<u8>> {
        // SAFETY: the caller's promise.
        let local = unsafe { &mut *self.local() };
        let links = local.links(class);
        // SAFETY: the links are the class's.
        if let Some(block) = unsafe { local.lists[class].pop(links) } {
            return Some(block);
        }
        if self.inbox.is_loaded() {
            local.collect(self);
            // SAFETY: as above.
            if let Some(block) = unsafe { local.lists[class].pop(links) } {
                return Some(block);
            }
        }
        let class = if local.lists[class].opens() { class } else { substitute_of(class) };
        // SAFETY: the links are the class's.
        unsafe { local.lists[class].pop(local.links(class)) }.or_else(|| local.refill(class))
    }

    /// Sends a block to its owner, together with others; `false` when it is the last that was sent there. If nobody would take
    /// them in there, this thread does.
    ///
    /// # Safety
    /// This is the calling thread's heap, and not the empty one; `block` is one of a slab of `entry` that nobody uses.
    pub(crate) unsafe fn send(&self, block: NonNull<u8>, entry: Entry) -> bool {
        // SAFETY: the caller's promise.
        let local = unsafe { &mut *self.local() };
        let is_sent = local.send(block, entry);
        match core::mem::take(&mut local.neglected) {
            0 => {}
            owner => tend(owner),
        }
        is_sent
    }

    /// Puts everything back that is kept for the thread, which has ended.
    ///
    /// # Safety
    /// This is the calling thread's heap, and not the empty one.
    pub(crate) unsafe fn put_away(&self) {
        // SAFETY: the caller's promise.
        let local = unsafe { &mut *self.local() };
        local.collect(self);
        local.put_away_all();
    }

    /// Gives back to the system what is kept for nothing.
    ///
    /// # Safety
    /// As [`Heap::put_away`].
    pub(crate) unsafe fn trim(&self) {
        // SAFETY: the caller's promise.
        unsafe {
            self.put_away();
            let local = &mut *self.local();
            local.release_unused();
            local.return_idle();
        }
    }

    /// A slab of `class` from a heap whose thread has ended, taken off its shelf.
    ///
    /// # Safety
    /// The heap is idle, and the caller has the ground for himself.
    unsafe fn lose_slab(&self, class: usize) -> Option<u32> {
        // SAFETY: the caller's promise.
        let local = unsafe { &mut *self.local() };
        let number = Some(local.shelves[class]).filter(|&number| number != NO_SLAB)?;
        local.unshelve(number);
        local.slabs -= 1;
        Some(number)
    }
}

/// Puts half of the list of a class that is too long back, whose first is `block`. (It is by the block that the heap is found again, so
/// that 'give' need not keep both where the first argument of a function is.)
///
/// # Safety
/// The block is of the calling thread's heap.
#[cold]
#[inline(never)]
unsafe fn overflow(block: *mut u8, class: usize) {
    let Some(number) = GROUND.number_of(block.addr()) else { return };
    let heap = GROUND.heap(GROUND.entry(number).owner());
    // SAFETY: the caller's promise.
    unsafe {
        let local = heap.local();
        let kept = (*local).lists[class].keep(class);
        (*local).shorten(class, kept);
        (*local).return_idle_if_much();
    }
}

impl Local {
    const fn over(base: usize, entries: *const AtomicU32, key: Key, beside: Beside, owner: u32) -> Local {
        let mut lists = [const { List::new(0) }; CLASSES];
        let mut class = 0;
        while class < CLASSES {
            lists[class] = List::new(class);
            class += 1;
        }
        Local {
            base,
            entries,
            key,
            beside,
            mine: Entry::new(owner, 0),
            lists,
            shelves: [NO_SLAB; CLASSES],
            outgoing: [const { Outgoing::NOTHING }; OUTGOING],
            idle: Idle { idle: 0, regretted: 0 },
            slabs: 0,
            neglected: 0,
        }
    }

    /// How far the list of a block's class is from the first, in bytes, if the block is a small one of this heap.
    #[inline(always)]
    fn distance_of(&self, block: *mut u8) -> Option<usize> {
        let distance = (self.entry_of(block)?.to_bits() ^ self.mine.0) as usize;
        (distance < SMALL_CLASSES * size_of::<List>()).then_some(distance)
    }

    /// The entry of the slab that a block lies in, if it lies in one; none for a thread that has no heap.
    #[inline(always)]
    fn entry_of(&self, block: *mut u8) -> Option<Entry> {
        let number = block.addr().wrapping_sub(self.base) / SLAB;
        if number >= GROUND.room() {
            return None;
        }
        // Whether it is this heap's is known by this thread: an entry says so from when this heap has the slab until it gives it
        // up, and while it is idle, other heaps take slabs behind the lock by which it was adopted. Whose else it is may change
        // while the block is on its way there, and is looked at again then.
        // SAFETY: there is an entry for each possible number.
        Some(Entry::from_bits(unsafe { (*self.entries.add(number)).load(Ordering::Relaxed) }))
    }

    /// Where the links of a class are.
    #[inline(always)]
    fn links(&self, class: usize) -> Links {
        if class < SMALL_CLASSES { Links::Inside(self.key) } else { Links::Beside(self.beside) }
    }

    /// Fills the empty list of a class and takes a block.
    #[inline(never)]
    fn refill(&mut self, class: usize) -> Option<NonNull<u8>> {
        let (wanted, links) = (self.lists[class].want(class), self.links(class));
        loop {
            let number = self.shelves[class];
            if number == NO_SLAB {
                self.acquire(class)?;
                continue;
            }
            // SAFETY: the slab is on this heap's shelf, thus its own.
            let slab = unsafe { &mut *GROUND.slab(number) };
            // SAFETY: as above.
            let chain = unsafe { slab.take(GROUND.start_of(number), links, wanted, &mut self.idle) };
            GROUND.blocks_out(number).add(chain.count);
            if slab.is_exhausted() {
                self.unshelve(number);
            }
            if let Some(block) = NonNull::new(chain.first) {
                // SAFETY: the block is free and in the chain.
                let rest = unsafe { links.next(block.as_ptr()) };
                self.lists[class].fill(rest, chain.count - 1);
                return Some(block);
            }
        }
    }

    /// Gets another slab of a class: one that a thread left, or a new one.
    fn acquire(&mut self, class: usize) -> Option<()> {
        let mut ground = GROUND.shared()?;
        // SAFETY: those heaps are idle, and this thread has the ground for itself.
        let left = ground.heaps.idle().find_map(|heap| unsafe { heap.lose_slab(class) });
        let number = match left {
            Some(number) => number,
            None => {
                let (number, resident) = ground.place_slab()?;
                let slab = Slab::new(class, resident);
                self.idle.idle += slab.idle_pages();
                // SAFETY: the slab is new, thus nobody else's.
                unsafe { GROUND.slab(number).write(slab) };
                number
            }
        };
        // Before anyone can adopt the heap that it came from, and find blocks of this slab in its inbox.
        GROUND.set_entry(number, Entry::new(self.mine.owner(), class));
        drop(ground);
        self.slabs += 1;
        self.shelve(number);
        Some(())
    }

    /// Puts a slab onto its class's shelf, in front.
    fn shelve(&mut self, number: u32) {
        // SAFETY: the slabs of this heap, and on its shelves, are its own; they are different ones.
        unsafe {
            let slab = &mut *GROUND.slab(number);
            let next = core::mem::replace(&mut self.shelves[slab.class()], number);
            (slab.next, slab.previous, slab.shelved) = (next, NO_SLAB, true);
            if next != NO_SLAB {
                (*GROUND.slab(next)).previous = number;
            }
        }
    }

    fn unshelve(&mut self, number: u32) {
        // SAFETY: as in `shelve`.
        unsafe {
            let slab = &mut *GROUND.slab(number);
            slab.shelved = false;
            match slab.previous {
                NO_SLAB => self.shelves[slab.class()] = slab.next,
                previous => (*GROUND.slab(previous)).next = slab.next,
            }
            if slab.next != NO_SLAB {
                (*GROUND.slab(slab.next)).previous = slab.previous;
            }
        }
    }

    /// Puts the blocks of a list back to their slabs, but for the first `kept`.
    fn shorten(&mut self, class: usize, kept: u32) {
        let links = self.links(class);
        // SAFETY: the list has more blocks than that.
        let mut rest = unsafe { self.lists[class].cut(links, kept) };
        while let Some(block) = NonNull::new(rest) {
            self.check(block, class);
            // SAFETY: the blocks are free and in the list.
            let (together, next) = unsafe { Chain::in_one_page(block, links, class) };
            rest = next;
            self.put_back(class, &together);
        }
    }

    /// Ends the process if what a list of a class has is no block of this heap and class: somebody has written to a link.
    fn check(&self, block: NonNull<u8>, class: usize) {
        let entry = GROUND.entry(number_in_list(block));
        if entry != Entry::new(self.mine.owner(), class) || !is_block(block.addr().get() % SLAB, class) {
            damaged(block);
        }
    }

    /// Puts blocks of a class that begin in one page, and have been checked, back to their slab, which is this heap's.
    fn put_back(&mut self, class: usize, blocks: &Chain) {
        let Some(first) = NonNull::new(blocks.first) else { return };
        let number = number_in_list(first);
        // SAFETY: there is a slab of this heap.
        let slab = unsafe { &mut *GROUND.slab(number) };
        // SAFETY: as above, and nobody uses the blocks.
        if slab.class() != class || unsafe { slab.put(GROUND.start_of(number), blocks, &mut self.idle) }.is_err() {
            damaged(first);
        }
        let is_unused = GROUND.blocks_out(number).remove(blocks.count);
        if !slab.shelved {
            self.shelve(number);
        } else if is_unused && (slab.next != NO_SLAB || slab.previous != NO_SLAB) {
            self.release(number);
        }
    }

    /// Gives up a slab of which nothing is in use.
    fn release(&mut self, number: u32) {
        self.unshelve(number);
        // SAFETY: the slab is this heap's.
        let idle = unsafe { (*GROUND.slab(number)).idle_pages() };
        self.idle.idle = self.idle.idle.saturating_sub(idle);
        self.slabs -= 1;
        GROUND.set_entry(number, Entry::NONE);
        if let Some(mut ground) = GROUND.shared() {
            ground.remove_slab(number);
        }
    }

    /// Takes in what other threads have freed.
    #[cold]
    fn collect(&mut self, heap: &Heap) {
        let mut next = heap.inbox.take();
        while let Some(block) = NonNull::new(next) {
            let entry = GROUND.entry(number_in_list(block));
            if entry == Entry::NONE || !is_block(block.addr().get() % SLAB, entry.class()) {
                damaged(block);
            }
            let links = self.links(entry.class());
            // SAFETY: what came is free, and in a list that is this thread's now.
            next = unsafe { links.next(next) };
            if entry.owner() != self.mine.owner() {
                // Its slab has gone to another heap meanwhile.
                if !self.send(block, entry) {
                    damaged(block);
                }
                continue;
            }
            match &mut self.lists[entry.class()] {
                list if list.has_room() => {
                    // SAFETY: the block is free.
                    unsafe { links.link(block.as_ptr(), list.first()) };
                    list.pushed(block.as_ptr());
                }
                _ => self.put_back(entry.class(), &Chain::one(block, links)),
            }
        }
        self.return_idle_if_much();
    }

    /// Adds a block of a slab of `entry` to those that go to its owner; `false` when it was the last to come there.
    fn send(&mut self, block: NonNull<u8>, entry: Entry) -> bool {
        let links = self.links(entry.class());
        let outgoing = &mut self.outgoing[entry.owner() as usize % OUTGOING];
        // SAFETY: nobody uses the block.
        let (is_sent, neglected) = unsafe { outgoing.add(entry.owner(), block, links) };
        self.neglected = neglected.unwrap_or(self.neglected);
        is_sent
    }

    /// Puts everything back that is kept in lists.
    fn put_away_all(&mut self) {
        for gathered in &mut self.outgoing {
            gathered.hand_over();
        }
        for class in 0..CLASSES {
            if !self.lists[class].first().is_null() {
                self.shorten(class, 0);
            }
            self.lists[class].rest(class);
        }
        self.return_idle_if_much();
    }

    /// Gives up the slabs of which nothing is in use.
    fn release_unused(&mut self) {
        for class in 0..CLASSES {
            let number = self.shelves[class];
            if number != NO_SLAB && GROUND.blocks_out(number).count() == 0 {
                self.release(number);
            }
        }
    }

    #[inline]
    fn return_idle_if_much(&mut self) {
        /// Pages that are always kept: 256 KiB.
        const LEAST: u32 = 64;
        let pages = self.slabs * (SLAB / PAGE) as u32;
        // Where there are other threads, giving pages back interrupts them.
        let part = if is_single_threaded() { 32 } else { 2 };
        if self.idle.idle > LEAST.max(pages / part) + self.idle.regretted {
            self.return_idle();
        }
    }

    /// Gives the pages of slabs back that are in memory for nothing.
    #[cold]
    fn return_idle(&mut self) {
        /// What is regretted most: 16 MiB.
        const MOST: u32 = 4096;
        /// Blocks that a list is left with: what lies in lists keeps its pages.
        const LEFT: u32 = 8;
        for class in 0..CLASSES {
            if self.lists[class].length() > LEFT {
                self.shorten(class, LEFT);
            }
        }
        let mut returned = 0;
        for class in 0..CLASSES {
            let mut number = self.shelves[class];
            while number != NO_SLAB {
                // SAFETY: the slab is this heap's.
                let slab = unsafe { &mut *GROUND.slab(number) };
                // SAFETY: as above.
                returned += unsafe { slab.return_idle(GROUND.start_of(number)) };
                number = slab.next;
            }
        }
        self.idle.idle = 0;
        self.idle.regretted = (self.idle.regretted - self.idle.regretted / 8).min(MOST);
        GROUND.see_returned(returned as usize * PAGE);
    }
}

/// The number of the slab of a block that came from a list.
fn number_in_list(block: NonNull<u8>) -> u32 {
    GROUND.number_of(block.addr().get()).unwrap_or_else(|| damaged(block))
}
