//! The heap of a thread: a list per class in front, slabs behind.
//!
//! What a program does most touches one line of the heap and the block: `take` pops a list, `give` pushes onto one. Everything
//! else happens when a list is empty (it is filled from a slab) or full (half of it goes back to its slabs).

//!
//! The lists are touched by the heap's thread alone, and never locked. The slabs are behind a lock (`owner_lock`), which
//! the thread takes when it fills or empties lists, and other threads take to put back what waits for a thread that is
//! absent (`heap::reclaim`).

mod listed;
mod outgoing;
mod reclaim;
#[cfg(not(all(loom, test)))]
mod seen;
mod slabs;

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::Ordering;

use crate::classes::{CLASSES, GRAIN, LARGEST, SMALL, SMALL_CLASSES, class_of, small_class_of, substitute_of};
use crate::damage::damaged;
use crate::ground::GROUND;
use crate::heaps::Tenancy;
use crate::inbox::{Inbox, weight_of};
use crate::links::{Beside, Chain, Key, Links};
use crate::list::List;
use crate::long::Kept;
use crate::owner_lock::OwnerLock;
use crate::slab::{SLAB, is_block};
use crate::world::{AtomicU32, only_one, touch};

pub(crate) use self::outgoing::send_at_once;
use self::outgoing::{Added, OUTGOING, Outgoing};
pub(crate) use self::reclaim::reclaim;
use self::slabs::{Slabs, entry_of};

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

/// What only the heap's thread touches.
#[repr(C)]
pub(crate) struct Local {
    lists: [List; CLASSES],
    base: usize,
    entries: *const AtomicU32,
    key: Key,
    beside: Beside,
    /// The entry of an own slab of class 0.
    mine: Entry,
    /// A heap for which blocks are to be reclaimed that were handed over to it; 0 for none.
    overdue: u32,
    outgoing: [Outgoing; OUTGOING],
    /// Freed long blocks.
    kept: Kept,
}

/// A heap, which stays where it is for ever.
#[repr(C, align(64))]
pub(crate) struct Heap {
    local: UnsafeCell<Local>,
    slabs: OwnerLock<Slabs>,
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

// SAFETY: the local part is used through `ThreadHeap` and `Owned` only, which stay on the heap's thread; the owner never
// changes, and the tenancy changes only behind the ground's lock.
unsafe impl Sync for Heap {}

only_one! {
/// The heap of a thread that has none yet: all of its lists are empty, and no block is its own.
pub(crate) static EMPTY: Heap = Heap {
    local: UnsafeCell::new(Local::over(usize::MAX / 2, core::ptr::null(), Key(0), Beside::NOWHERE, 0)),
    slabs: OwnerLock::new(Slabs::none_of(0)),
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
        let heap = Heap {
            local: UnsafeCell::new(local),
            slabs: OwnerLock::new(Slabs::none_of(owner)),
            inbox: Inbox::new(),
            owner,
            tenancy: Tenancy::new(),
        };
        // SAFETY: the caller's promise.
        unsafe { place.write(heap) };
    }

    pub(crate) fn owner(&self) -> u32 {
        self.owner
    }

    pub(crate) fn tenancy(&self) -> &Tenancy {
        touch(&raw const self.tenancy);
        &self.tenancy
    }
}

/// The calling thread's heap, or the empty one, which every thread can take from and none can give to. It stays on its
/// thread.
#[derive(Clone, Copy)]
pub(crate) struct ThreadHeap {
    heap: &'static Heap,
    _here: PhantomData<*mut ()>,
}

/// The calling thread's heap, which is not the empty one; or a heap without a thread that no other thread can get.
#[derive(Clone, Copy)]
pub(crate) struct Owned(ThreadHeap);

impl ThreadHeap {
    /// The heap in the calling thread's slot.
    ///
    /// # Safety
    /// The heap is the empty one, or no other thread has it as its own.
    #[inline(always)]
    pub(crate) unsafe fn new(heap: &'static Heap) -> ThreadHeap {
        ThreadHeap { heap, _here: PhantomData }
    }

    /// The heap if it is not the empty one.
    #[inline(always)]
    pub(crate) fn owned(self) -> Option<Owned> {
        if self.heap.owner != 0 { Some(Owned(self)) } else { None }
    }

    #[inline(always)]
    fn local(self) -> *mut Local {
        if self.heap.owner != 0 {
            touch(self.heap.local.get());
        }
        self.heap.local.get()
    }

    /// Takes a small block from its list; `None` when that is empty.
    #[inline(always)]
    pub(crate) fn take(self, size: usize) -> Option<NonNull<u8>> {
        if size > SMALL {
            return None;
        }
        let local = self.local();
        // SAFETY: the heap is this thread's; there is a list for each small class.
        unsafe {
            let list = (&raw mut (*local).lists).cast::<List>().add(small_class_of(size));
            (*list).pop_small((*local).key)
        }
    }

    /// Takes a longer block that has a class from its list; `None` when that is empty.
    #[inline]
    pub(crate) fn take_medium(self, size: usize) -> Option<NonNull<u8>> {
        if size <= SMALL || size > LARGEST {
            return None;
        }
        let local = self.local();
        // SAFETY: the heap is this thread's; there is a list for each class.
        unsafe {
            let list = (&raw mut (*local).lists).cast::<List>().add(class_of(size));
            (*list).pop_medium((*local).beside)
        }
    }

    /// Puts a small block of at least `size` bytes onto its list; returns whether it is one of this heap. What was freed last
    /// is not taken once more.
    ///
    /// # Safety
    /// If `block` is a block, nobody uses it any more.
    #[inline(always)]
    pub(crate) unsafe fn give(self, block: *mut u8, size: usize) -> bool {
        const { assert!(size_of::<List>() == GRAIN, "a small block is as long as its list is far from the first") };
        let local = self.local();
        // SAFETY: the heap is this thread's, and the caller's promise; there is a list for each class.
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

    /// As [`ThreadHeap::give`], for blocks of every class and every heap.
    ///
    /// # Safety
    /// As [`ThreadHeap::give`].
    #[inline]
    pub(crate) unsafe fn give_any(self, block: *mut u8) -> bool {
        let local = self.local();
        // SAFETY: the heap is this thread's, and the caller's promise; there is a list for each class.
        unsafe {
            let Some(entry) = (*local).entry_of(block) else { return false };
            if entry.owner() != self.heap.owner {
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
    /// As [`ThreadHeap::give`].
    #[inline]
    unsafe fn give_other(self, block: *mut u8, entry: Entry) -> bool {
        match NonNull::new(block).zip(self.owned()) {
            Some((block, owned)) if entry != Entry::NONE && is_block(block.addr().get() % SLAB, entry.class()) => {
                // SAFETY: the caller's promise.
                unsafe { owned.send(block, entry) }
            }
            _ => false,
        }
    }
}

impl Owned {
    pub(crate) fn heap(self) -> &'static Heap {
        self.0.heap
    }

    pub(crate) fn owner(self) -> u32 {
        self.heap().owner
    }

    #[inline(always)]
    fn local(&mut self) -> &mut Local {
        // SAFETY: the heap is this thread's, and functions of this type do not call one another while they use it.
        unsafe { &mut *self.0.local() }
    }

    /// The long blocks that are kept for the thread.
    pub(crate) fn kept(&mut self) -> &mut Kept {
        &mut self.local().kept
    }

    /// As [`ThreadHeap::give_any`].
    ///
    /// # Safety
    /// As [`ThreadHeap::give`].
    pub(crate) unsafe fn give_any(self, block: *mut u8) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.0.give_any(block) }
    }

    /// Allocates a block of a class, or of its substitute, by whatever it takes. `None` when there is no memory.
    pub(crate) fn allocate(mut self, class: usize) -> Option<NonNull<u8>> {
        let heap = self.heap();
        let local = self.local();
        if let Some(block) = local.pop(class) {
            return Some(block);
        }
        let mut slabs = heap.slabs.lock();
        let is_loaded = heap.inbox.is_loaded();
        heap.inbox.loosen();
        if is_loaded {
            local.collect(&heap.inbox, &mut slabs);
        }
        let block = local.pop(class).or_else(|| {
            let class = if local.lists[class].opens() { class } else { substitute_of(class) };
            local.pop(class).or_else(|| local.refill(class, &mut slabs))
        });
        drop(slabs);
        if is_loaded {
            self.reclaim_overdue();
        }
        block
    }

    /// Sends a block to its owner, together with others; `false` when it is the last that was sent there. If too much waits
    /// there, this thread reclaims it.
    ///
    /// # Safety
    /// `block` is one of a slab of `entry` that nobody uses.
    pub(crate) unsafe fn send(mut self, block: NonNull<u8>, entry: Entry) -> bool {
        // SAFETY: the caller's promise.
        let is_sent = unsafe { self.local().send(block, entry) };
        self.reclaim_overdue();
        is_sent
    }

    #[inline]
    fn reclaim_overdue(&mut self) {
        match core::mem::take(&mut self.local().overdue) {
            0 => {}
            owner => reclaim(owner),
        }
    }

    /// Puts everything back that is kept for the thread, which has ended.
    pub(crate) fn put_away(mut self) {
        let heap = self.heap();
        let local = self.local();
        let mut slabs = heap.slabs.lock();
        local.collect(&heap.inbox, &mut slabs);
        local.put_away_all(&mut slabs);
        drop(slabs);
        self.hand_over_all();
    }

    /// Hands over what is gathered for other heaps.
    fn hand_over_all(&mut self) {
        for number in 0..OUTGOING {
            if let Some(owner) = self.local().outgoing[number].hand_over() {
                reclaim(owner);
            }
        }
        self.reclaim_overdue();
    }

    /// Gives back to the system what is kept for nothing.
    pub(crate) fn trim(self) {
        self.put_away();
        let mut slabs = self.heap().slabs.lock();
        slabs.release_unused(|| false);
        slabs.return_idle(|| false);
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
    let mut owned = Owned(unsafe { ThreadHeap::new(heap) });
    let local = owned.local();
    let mut slabs = heap.slabs.lock();
    let kept = local.lists[class].keep(class);
    local.shorten(class, kept, &mut slabs);
    if heap.inbox.is_over_budget() {
        local.collect(&heap.inbox, &mut slabs);
    } else {
        local.return_idle_if_much(&mut slabs);
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
            overdue: 0,
            outgoing: [const { Outgoing::NOTHING }; OUTGOING],
            kept: Kept::NOTHING,
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
        // This thread reads whether the slab is its own: other heaps take slabs of this heap only while it is idle, behind
        // the ground's lock by which it is adopted, and a visitor gives back only slabs of which no block is out. Which other
        // heap has the slab may change while the block is on its way there, and is read again then.
        // SAFETY: there is an entry for each possible number.
        Some(Entry::from_bits(unsafe { (*self.entries.add(number)).load(Ordering::Relaxed) }))
    }

    /// Where the links of a class are.
    #[inline(always)]
    fn links(&self, class: usize) -> Links {
        if class < SMALL_CLASSES { Links::Inside(self.key) } else { Links::Beside(self.beside) }
    }

    /// Takes the first block of a list.
    fn pop(&mut self, class: usize) -> Option<NonNull<u8>> {
        let links = self.links(class);
        // SAFETY: the links are the class's.
        unsafe { self.lists[class].pop(links) }
    }

    /// Fills the empty list of a class and takes a block.
    #[inline(never)]
    fn refill(&mut self, class: usize, slabs: &mut Slabs) -> Option<NonNull<u8>> {
        let (wanted, links) = (self.lists[class].want(class), self.links(class));
        let (block, chain) = slabs.take(class, links, wanted)?;
        // SAFETY: the block is free and the chain's first.
        let rest = unsafe { links.next(block.as_ptr()) };
        self.lists[class].fill(rest, chain.count - 1);
        Some(block)
    }

    /// Puts the blocks of a list back to their slabs, but for the first `kept`.
    fn shorten(&mut self, class: usize, kept: u32, slabs: &mut Slabs) {
        let links = self.links(class);
        // SAFETY: the list has more blocks than that.
        let mut rest = unsafe { self.lists[class].cut(links, kept) };
        while let Some(block) = NonNull::new(rest) {
            if entry_of(block) != Entry::new(self.mine.owner(), class) {
                damaged(block);
            }
            // SAFETY: the blocks are free and in the list.
            let (together, next) = unsafe { Chain::in_one_page(block, links, class) };
            rest = next;
            slabs.put_back(class, &together);
        }
    }

    /// Takes in what other threads have freed.
    #[cold]
    fn collect(&mut self, inbox: &Inbox, slabs: &mut Slabs) {
        let mut next = inbox.take();
        let mut weight = 0;
        while let Some(block) = NonNull::new(next) {
            let entry = entry_of(block);
            let links = self.links(entry.class());
            weight += weight_of(entry.class());
            // SAFETY: what came is free, and in a list that is this thread's now.
            next = unsafe { links.next(block.as_ptr()) };
            if entry.owner() != self.mine.owner() {
                // Its slab has gone to another heap meanwhile.
                // SAFETY: as above.
                if !unsafe { self.send(block, entry) } {
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
                _ => slabs.put_back(entry.class(), &Chain::one(block, links)),
            }
        }
        inbox.lighten(weight);
        self.return_idle_if_much(slabs);
    }

    /// Adds a block of a slab of `entry` to those that go to its owner; `false` when it was the last to come there.
    ///
    /// # Safety
    /// Nobody uses the block.
    unsafe fn send(&mut self, block: NonNull<u8>, entry: Entry) -> bool {
        let links = self.links(entry.class());
        // SAFETY: the caller's promise.
        match unsafe { self.outgoing[entry.owner() as usize % OUTGOING].add(entry, block, links) } {
            Added::Twice => false,
            Added::Sent { overdue } => {
                self.overdue = overdue.unwrap_or(self.overdue);
                true
            }
        }
    }

    /// Puts everything back that is kept in lists.
    fn put_away_all(&mut self, slabs: &mut Slabs) {
        for class in 0..CLASSES {
            if !self.lists[class].first().is_null() {
                self.shorten(class, 0, slabs);
            }
            self.lists[class].rest(class);
        }
        self.return_idle_if_much(slabs);
    }

    #[inline]
    fn return_idle_if_much(&mut self, slabs: &mut Slabs) {
        if slabs.has_much_idle() {
            self.return_idle(slabs);
        }
    }

    /// Gives the pages of slabs back that are in memory for nothing.
    #[cold]
    fn return_idle(&mut self, slabs: &mut Slabs) {
        /// Blocks that a list is left with: what lies in lists keeps its pages.
        const LEFT: u32 = 8;
        for class in 0..CLASSES {
            if self.lists[class].length() > LEFT {
                self.shorten(class, LEFT, slabs);
            }
        }
        slabs.return_idle(|| false);
    }
}
