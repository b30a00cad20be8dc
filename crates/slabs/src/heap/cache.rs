//! The thread cache: a free list per class in front of the slabs, remote-free buffers, and freed long blocks.

use core::mem::replace;
use core::ptr::NonNull;
use core::sync::atomic::Ordering;

use super::allowance::Allowance;
use super::remote_buffer::{Added, REMOTE_BUFFERS, RemoteBuffer};
use super::slabs::Slabs;
use crate::arena::ARENA;
use crate::carrier::Unloaded;
use crate::classes::{CLASSES, SLAB, SMALL_CLASSES, is_block};
use crate::corruption::corrupted;
use crate::entry::{DISSOLVED, Entry};
use crate::free_list::FreeList;
use crate::inbox::{Inbox, weight_of};
use crate::links::{Chain, Key, Links, SideTable};
use crate::long_cache::LongCache;
use crate::origin::Origin;
use crate::platform::AtomicU32;
use crate::scarcity;

/// The part of a heap that only its thread uses.
#[repr(C)]
pub(crate) struct ThreadCache {
    pub(super) lists: [FreeList; CLASSES],
    base: usize,
    entries: *const AtomicU32,
    pub(super) key: Key,
    pub(super) side_table: SideTable,
    /// The entry of this heap's slabs of class 0.
    mine: Entry,
    /// A heap whose remote frees this thread has to reclaim, by its number; 0 for none.
    pub(super) overdue: u32,
    /// Number of slabs that had an entry when this thread last looked. Slabs that were added later take the slow path,
    /// which looks again.
    room: usize,
    allowance: Allowance,
    /// The class from which on capacity is looked for that is not used.
    hand: u8,
    pub(super) clock: Clock,
    pub(super) remote_buffers: [RemoteBuffer; REMOTE_BUFFERS],
    /// Freed long blocks.
    pub(super) long_cache: LongCache,
}

/// The time of a thread, which passes while its lists are filled.
pub(super) struct Clock {
    /// Lists to fill before the clock is looked at.
    fills_left: u8,
    /// When the thread's memory was looked at last, in nanoseconds.
    pub(super) looked_at: u64,
}

impl Clock {
    /// A short program ends before there is anything to look for, and is spared the pages of code for it.
    const NEW: Clock = Clock { fills_left: 64, looked_at: 0 };

    /// Counts that a list is filled; returns whether it is worth while to look at the system's clock.
    #[inline]
    pub(super) fn count(&mut self) -> bool {
        const EACH: u8 = 16;
        self.fills_left -= 1;
        if self.fills_left != 0 {
            return false;
        }
        self.fills_left = EACH;
        true
    }
}

impl ThreadCache {
    pub(super) const fn over(
        base: usize,
        entries: *const AtomicU32,
        key: Key,
        side_table: SideTable,
        owner: u32,
    ) -> ThreadCache {
        let mut lists = [const { FreeList::new(0) }; CLASSES];
        let mut class = 0;
        while class < CLASSES {
            lists[class] = FreeList::new(class);
            class += 1;
        }
        ThreadCache {
            base,
            entries,
            key,
            side_table,
            mine: Entry::new(owner, 0),
            lists,
            overdue: 0,
            room: 0,
            allowance: Allowance::NONE,
            hand: 0,
            clock: Clock::NEW,
            remote_buffers: [const { RemoteBuffer::EMPTY }; REMOTE_BUFFERS],
            long_cache: LongCache::EMPTY,
        }
    }

    /// Returns the offset of the list of a block's class in bytes. It is beyond the lists for a block in a dissolved
    /// slab or of another heap; `None` for what [`ThreadCache::entry_of`] does not find.
    #[inline(always)]
    pub(super) fn distance_of(&self, block: *mut u8) -> Option<usize> {
        Some((self.entry_of(block)?.to_bits() ^ self.mine.to_bits()) as usize)
    }

    /// Returns the entry of the slab in which a block lies, if it lies in the pages; `None` for a thread without a
    /// heap, and for slabs that were added since [`ThreadCache::refresh_room`].
    #[inline(always)]
    pub(super) fn entry_of(&self, block: *mut u8) -> Option<Entry> {
        let number = block.addr().wrapping_sub(self.base) / SLAB;
        if number >= self.room {
            return None;
        }
        // Whether the slab is this heap's does not change meanwhile: other heaps take slabs of this heap only while it
        // is idle, behind the arena's lock by which it is adopted, and a visitor frees only slabs of which no block is
        // out. The owner may change if it is another heap, and is read again when the block is reclaimed.
        // SAFETY: there is an entry for each number below the room.
        Some(Entry::from_bits(unsafe { (*self.entries.add(number)).load(Ordering::Relaxed) }))
    }

    /// Looks how many slabs have entries by now.
    #[inline]
    pub(super) fn refresh_room(&mut self) {
        self.room = ARENA.room();
    }

    /// Returns the place of the links of a class.
    #[inline(always)]
    pub(super) fn links(&self, class: usize) -> Links {
        if class < SMALL_CLASSES { Links::InBlock(self.key) } else { Links::SideTable(self.side_table) }
    }

    /// Pops the first block of a list.
    pub(super) fn pop(&mut self, class: usize) -> Option<NonNull<u8>> {
        let links = self.links(class);
        // SAFETY: the links are the class's.
        unsafe { self.lists[class].pop(links) }
    }

    /// Fills the empty list of a class from the slabs and pops a block.
    #[inline(never)]
    pub(super) fn refill(&mut self, class: usize, slabs: &mut Slabs) -> Option<NonNull<u8>> {
        let (wanted, links) = (self.lists[class].begin_filling(class), self.links(class));
        let (block, chain) = slabs.take(class, links, wanted)?;
        // SAFETY: the block is free and the chain's first.
        let rest = unsafe { links.next(block.as_ptr()) };
        self.lists[class].fill(rest, chain.count - 1);
        let growth = self.lists[class].growth(class);
        if growth != 0 && self.may_grow(growth, slabs) {
            self.lists[class].grow(class);
        }
        Some(block)
    }

    /// Takes a block from a slab of its class, which is aligned as the class's length is. Its list is not filled.
    #[cold]
    #[inline(never)]
    pub(super) fn take_of_class(&mut self, class: usize, slabs: &mut Slabs) -> Option<NonNull<u8>> {
        let links = self.links(class);
        let (block, _) = slabs.take_of_class(class, links, 1)?;
        // SAFETY: the block is free and the chain's first.
        let rest = unsafe { links.next(block.as_ptr()) };
        self.put_back_all(class, rest, slabs);
        Some(block)
    }

    /// Returns whether a list may get `growth` bytes more capacity, if need be after others have lost some.
    fn may_grow(&mut self, growth: u32, slabs: &mut Slabs) -> bool {
        !scarcity::is_scarce() && (self.allowance.add(growth) || self.shrink_unused(growth, slabs))
    }

    /// Takes capacity from a few lists that were not filled lately; returns whether that allows for `growth` bytes.
    #[cold]
    #[inline(never)]
    fn shrink_unused(&mut self, growth: u32, slabs: &mut Slabs) -> bool {
        /// Lists that are looked at.
        const LISTS: usize = 16;
        for _ in 0..LISTS {
            self.hand = (self.hand + 1) % CLASSES as u8;
            let class = usize::from(self.hand);
            self.allowance.subtract(self.lists[class].shrink_if_unused(class));
            if self.lists[class].is_over_capacity() {
                self.shorten(class, self.lists[class].capacity() / 2, slabs);
            }
            if self.allowance.add(growth) {
                return true;
            }
        }
        false
    }

    /// Flushes the latest blocks of the list of a class, which overflows. The call that frees a block waits for them.
    pub(super) fn flush_full(&mut self, class: usize, slabs: &mut Slabs) {
        /// The pages of a heap, 32 MiB, from which on most blocks and the metadata of most slabs are in no cache of the
        /// processor.
        const FAR: u32 = 8192;
        let fewest = if slabs.pages.resident > FAR { 2 } else { 8 };
        let links = self.links(class);
        let mut slab = 0;
        // The metadata of each slab is in lines of its own, which would be waited for one after the other.
        let observe = |block: *mut u8| {
            if replace(&mut slab, block.addr() / SLAB) != block.addr() / SLAB {
                prefetch_slab_of(block);
            }
        };
        // SAFETY: the links are the class's.
        let latest = unsafe { self.lists[class].cut_latest(links, fewest, observe) };
        self.put_back_all(class, latest, slabs);
        self.allowance.subtract(self.lists[class].shrink_if_only_freed(class));
    }

    /// Flushes a list into the slabs except the first `kept` blocks.
    pub(super) fn shorten(&mut self, class: usize, kept: u32, slabs: &mut Slabs) {
        let links = self.links(class);
        // SAFETY: the list has more blocks than that.
        let rest = unsafe { self.lists[class].cut(links, kept) };
        self.put_back_all(class, rest, slabs);
    }

    /// Puts the blocks of a class in a list back into the slabs.
    fn put_back_all(&mut self, class: usize, mut rest: *mut u8, slabs: &mut Slabs) {
        let links = self.links(class);
        let entry = Entry::new(self.mine.owner(), class);
        while let Some(block) = NonNull::new(rest) {
            let number = ARENA.number_of(block.addr().get());
            // SAFETY: the blocks are free and in the list.
            rest = unsafe {
                match number.filter(|&number| ARENA.entry(number) == entry && is_block_at(block, class)) {
                    Some(number) => {
                        let (together, next) = Chain::in_one_page(block, links, class);
                        slabs.put_back_into(number, class, &together);
                        next
                    }
                    None => self.put_back_dissolved(class, block, slabs),
                }
            };
        }
    }

    /// Puts the first block of a list back into the dissolved slab that it belongs to; returns the next. Ends the
    /// process if it belongs to none.
    ///
    /// # Safety
    /// The block is free and in a list of the class.
    #[cold]
    #[inline(never)]
    unsafe fn put_back_dissolved(&mut self, class: usize, block: NonNull<u8>, slabs: &mut Slabs) -> *mut u8 {
        let (origin, links) = (Origin::of_listed(block), self.links(class));
        if origin.entry != Entry::new(self.mine.owner(), DISSOLVED) || origin.class != class {
            corrupted(block);
        }
        // SAFETY: as this function requires.
        let next = unsafe { links.next(block.as_ptr()) };
        slabs.put_back(class, &Chain::one(block, links));
        next
    }

    /// Collects up to `most` remote frees, into the lists as far as they have room, otherwise into the slabs. What is
    /// in the inbox is taken at most twice.
    #[cold]
    pub(super) fn collect(&mut self, inbox: &Inbox, slabs: &mut Slabs, most: usize) {
        let (mut left, mut weight) = (most, 0);
        for _ in 0..2 {
            slabs.arrived.take_if_none(inbox);
            let mut next = slabs.arrived.first();
            while left != 0
                && let Some(carrier) = next
            {
                let origin = Origin::of_listed(carrier);
                // SAFETY: the blocks are free, and in a list that is this thread's now.
                let unloaded = unsafe { Unloaded::from(carrier, origin.class, self.links(origin.class)) };
                next = NonNull::new(unloaded.next);
                for block in unloaded.blocks() {
                    let origin = Origin::of_listed(block);
                    weight += weight_of(origin.class);
                    left = left.saturating_sub(1);
                    // SAFETY: as above.
                    unsafe { self.collect_block(block, &origin, slabs) };
                }
            }
            slabs.arrived.leave(next);
        }
        inbox.subtract_weight(weight);
        self.purge_idle_if_much(slabs);
    }

    /// Collects a remote free.
    ///
    /// # Safety
    /// The block is of that origin, free, and in no list any more.
    #[inline]
    unsafe fn collect_block(&mut self, block: NonNull<u8>, origin: &Origin, slabs: &mut Slabs) {
        let links = self.links(origin.class);
        if origin.entry.owner() != self.mine.owner() {
            // SAFETY: the caller's promise.
            return unsafe { self.pass_on(block, origin) };
        }
        match &mut self.lists[origin.class] {
            // It was freed twice: linked to itself, it would be every later request's.
            list if list.first() == block.as_ptr() => corrupted(block),
            list if list.has_room() => {
                // SAFETY: the block is free.
                unsafe { links.link(block.as_ptr(), list.first()) };
                list.pushed(block.as_ptr());
            }
            _ => slabs.put_back(origin.class, &Chain::one(block, links)),
        }
    }

    /// Sends a remote free on whose slab another heap has taken.
    ///
    /// # Safety
    /// As [`ThreadCache::send`].
    #[cold]
    #[inline(never)]
    unsafe fn pass_on(&mut self, block: NonNull<u8>, origin: &Origin) {
        // SAFETY: as this function requires.
        if !unsafe { self.send(block, origin) } {
            corrupted(block);
        }
    }

    /// Adds a block of another heap to the remote-free buffers; `false` when it was added last already.
    ///
    /// # Safety
    /// The block is of that origin and is not used.
    #[inline(always)]
    pub(super) unsafe fn send(&mut self, block: NonNull<u8>, origin: &Origin) -> bool {
        let (links, key) = (self.links(origin.class), self.key);
        let buffer = &mut self.remote_buffers[origin.entry.owner() as usize % REMOTE_BUFFERS];
        // SAFETY: the caller's promise.
        match unsafe { buffer.add(origin, block, links, key) } {
            Added::AlreadyFree => false,
            Added::Buffered { overdue } => {
                self.overdue = overdue.unwrap_or(self.overdue);
                true
            }
        }
    }

    /// Flushes all lists into the slabs and resets their capacities.
    pub(super) fn flush_all(&mut self, slabs: &mut Slabs) {
        for class in 0..CLASSES {
            if !self.lists[class].first().is_null() {
                self.shorten(class, 0, slabs);
            }
            self.lists[class].reset(class);
        }
        self.allowance.clear();
        self.purge_idle_if_much(slabs);
    }

    #[inline]
    pub(super) fn purge_idle_if_much(&mut self, slabs: &mut Slabs) {
        if slabs.purging.is_under_way {
            slabs.purge_some_idle();
        } else if slabs.has_much_idle() {
            self.begin_purging(slabs);
        }
    }

    /// Begins to purge the idle pages of the slabs, after it has flushed most of each list.
    #[cold]
    fn begin_purging(&mut self, slabs: &mut Slabs) {
        /// The blocks that stay in each list. A block in a list keeps its pages in memory.
        const LEFT: u32 = 8;
        for class in 0..CLASSES {
            if self.lists[class].length() > LEFT {
                self.shorten(class, LEFT, slabs);
            }
        }
        slabs.purge_some_idle();
    }
}

/// Returns whether a block of a class lies at an address in a slab.
fn is_block_at(block: NonNull<u8>, class: usize) -> bool {
    is_block(block.addr().get() % SLAB, class)
}

/// Prefetches the metadata of the slab in which a block lies.
#[inline]
fn prefetch_slab_of(block: *mut u8) {
    if let Some(number) = ARENA.number_of(block.addr()) {
        ARENA.prefetch_slab(number);
    }
}
