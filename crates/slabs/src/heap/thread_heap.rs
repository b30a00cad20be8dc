//! The heap of the calling thread.

use core::marker::PhantomData;
use core::ptr::NonNull;

use super::cache::ThreadCache;
use super::parts::Heap;
use super::reclaim::reclaim;
use super::remote_buffer::REMOTE_BUFFERS;
use crate::arena::ARENA;
use crate::classes::{
    CLASSES, GRAIN, LARGEST, PAGE, SLAB, SMALL, SMALL_CLASSES, is_block, medium_class_of, size_of_class,
    small_class_of, substitute_of,
};
use crate::entry::{DISSOLVED, Entry};
use crate::free_list::FreeList;
use crate::links::Links;
use crate::long_cache::LongCache;
use crate::origin::{Origin, class_in_dissolved, class_of_block};
use crate::platform::{AtomicPtr, touch};

/// The calling thread's heap, or `EMPTY`. It stays on its thread.
#[derive(Clone, Copy)]
pub struct ThreadHeap {
    heap: &'static Heap,
    _here: PhantomData<*mut ()>,
}

/// The calling thread's heap, which is not `EMPTY`; or a heap without a thread that no other thread can adopt.
#[derive(Clone, Copy)]
pub struct Owned(ThreadHeap);

impl ThreadHeap {
    /// Wraps the heap in the calling thread's slot.
    ///
    /// # Safety
    /// The heap is `EMPTY`, or it is no other thread's.
    #[inline(always)]
    pub(crate) unsafe fn new(heap: &'static Heap) -> ThreadHeap {
        ThreadHeap { heap, _here: PhantomData }
    }

    /// Returns the heap unless it is `EMPTY`.
    #[inline(always)]
    pub fn owned(self) -> Option<Owned> {
        if self.heap.owner != 0 { Some(Owned(self)) } else { None }
    }

    /// Returns the place where the hardened heap has the address of the thread's cache; that of `EMPTY` stays null.
    #[inline(always)]
    pub fn hardened(self) -> &'static AtomicPtr<()> {
        &self.heap.hardened
    }

    #[inline(always)]
    fn cache(self) -> *mut ThreadCache {
        if self.heap.owner != 0 {
            touch(self.heap.cache.get());
        }
        self.heap.cache.get()
    }

    /// Pops a block off the free list of its class; `None` when the list is empty, or the size has no class.
    #[inline(always)]
    pub fn take(self, size: usize) -> Option<NonNull<u8>> {
        if size <= SMALL {
            self.take_small(size)
        } else if size <= LARGEST {
            self.take_medium(size)
        } else {
            None
        }
    }

    #[inline(always)]
    fn take_small(self, size: usize) -> Option<NonNull<u8>> {
        let cache = self.cache();
        // SAFETY: the heap is this thread's; there is a list for each small class, whose links need the key.
        unsafe {
            let list = (&raw mut (*cache).lists).cast::<FreeList>().add(small_class_of(size));
            (*list).pop_small((*cache).key)
        }
    }

    #[inline(always)]
    fn take_medium(self, size: usize) -> Option<NonNull<u8>> {
        let cache = self.cache();
        // SAFETY: the heap is this thread's; there is a list for each class, whose links are in the table.
        unsafe {
            let list = (&raw mut (*cache).lists).cast::<FreeList>().add(medium_class_of(size));
            (*list).pop_medium((*cache).side_table)
        }
    }

    /// Pushes a block of at least `size` bytes onto its free list. Returns `false` if it is not a block of this heap,
    /// is already the list's first, or lies in a dissolved slab.
    ///
    /// # Safety
    /// If `block` is a block, it is not used any more.
    #[inline(always)]
    pub unsafe fn give(self, block: *mut u8, size: usize) -> bool {
        const { assert!(Entry::STEP == GRAIN, "the distance of a small class's list is the length of its blocks") };
        const SMALL_END: usize = SMALL_CLASSES * Entry::STEP;
        const END: usize = CLASSES * Entry::STEP;
        let cache = self.cache();
        // SAFETY: the heap is this thread's, and the caller's promise.
        unsafe {
            match (*cache).distance_of(block) {
                Some(distance @ 0..SMALL_END) => {
                    distance >= size && self.push(block, distance, Links::InBlock((*cache).key))
                }
                Some(distance @ ..END) => {
                    size_of_class(distance / Entry::STEP) >= size
                        && self.push(block, distance, Links::SideTable((*cache).side_table))
                }
                _ => false,
            }
        }
    }

    /// Returns the class of a block of this heap; `None` if none begins there, or it lies in a dissolved slab.
    #[inline(always)]
    pub fn class_of(self, block: *mut u8) -> Option<usize> {
        // SAFETY: the heap is this thread's.
        let class = unsafe { (*self.cache()).distance_of(block) }? / Entry::STEP;
        (class < CLASSES && is_block(block.addr() % SLAB, class)).then_some(class)
    }

    /// Pushes a block of this heap onto the free list at a distance of that of class 0; returns `false` if it is
    /// already the list's first.
    ///
    /// # Safety
    /// As [`ThreadHeap::give`]; the list is that of the block's class, and the links are the class's.
    #[inline(always)]
    unsafe fn push(self, block: *mut u8, distance: usize, links: Links) -> bool {
        const { assert!(size_of::<FreeList>() == Entry::STEP, "entries contain the distances of lists") };
        // SAFETY: the heap is this thread's, and the caller's promise.
        unsafe {
            let list = (&raw mut (*self.cache()).lists).byte_add(distance).cast::<FreeList>();
            let first = (*list).first();
            if first == block {
                return false;
            }
            links.link(block, first);
            if (*list).pushed(block) {
                overflow(block, distance / Entry::STEP);
            }
        }
        true
    }

    /// As [`ThreadHeap::give`], for blocks of every class and every heap.
    ///
    /// # Safety
    /// As [`ThreadHeap::give`].
    #[inline]
    pub unsafe fn give_any(self, block: *mut u8) -> bool {
        let cache = self.cache();
        // SAFETY: the heap is this thread's, and the caller's promise; there is a list for each class.
        unsafe {
            let Some(entry) = (*cache).entry_of(block) else { return false };
            if entry.owner() != self.heap.owner {
                return self.give_other(block, entry);
            }
            match entry.class() {
                DISSOLVED => self.give_dissolved(block),
                class => self.give_of_class(block, class),
            }
        }
    }

    /// Pushes a block of this heap in a dissolved slab onto its free list; returns `false` if it is none, or already
    /// the list's first.
    ///
    /// # Safety
    /// As [`ThreadHeap::give`].
    #[inline(never)]
    unsafe fn give_dissolved(self, block: *mut u8) -> bool {
        let class = NonNull::new(block).and_then(class_in_dissolved);
        // SAFETY: the caller's promise.
        class.is_some_and(|class| unsafe { self.give_of_class(block, class) })
    }

    /// Pushes a block of this heap onto the free list of its class; returns `false` if it is already the list's first.
    ///
    /// # Safety
    /// As [`ThreadHeap::give`], and the class is the block's.
    #[inline(always)]
    pub unsafe fn give_of_class(self, block: *mut u8, class: usize) -> bool {
        // SAFETY: the heap is this thread's, and the caller's promise.
        unsafe { self.push(block, class * Entry::STEP, (*self.cache()).links(class)) }
    }

    /// Frees a block of another heap; returns `false` if it is none, or the last freed one.
    ///
    /// # Safety
    /// As [`ThreadHeap::give`].
    #[inline(never)]
    unsafe fn give_other(self, block: *mut u8, entry: Entry) -> bool {
        let Some((block, owned)) = NonNull::new(block).zip(self.owned()) else { return false };
        // SAFETY: the caller's promise.
        class_of_block(block, entry).is_some_and(|class| unsafe { owned.send(block, &Origin { entry, class }) })
    }
}

impl Owned {
    /// Returns the heap.
    pub fn heap(self) -> &'static Heap {
        self.0.heap
    }

    /// Returns the number of the heap, from 1.
    pub fn owner(self) -> u32 {
        self.heap().owner
    }

    /// Returns the heap as its thread uses it.
    pub fn here(self) -> ThreadHeap {
        self.0
    }

    #[inline(always)]
    pub(super) fn cache(&mut self) -> &mut ThreadCache {
        // SAFETY: the heap is this thread's, and functions of this type do not call one another while they use it.
        unsafe { &mut *self.0.cache() }
    }

    /// Returns the thread's cache of long blocks.
    pub fn long_cache(&mut self) -> &mut LongCache {
        &mut self.cache().long_cache
    }

    /// Looks how many slabs have entries by now, for the fast path of frees.
    pub fn refresh_room(mut self) {
        self.cache().refresh_room();
    }

    /// As [`ThreadHeap::give_any`].
    ///
    /// # Safety
    /// As [`ThreadHeap::give`].
    pub unsafe fn give_any(self, block: *mut u8) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.0.give_any(block) }
    }

    /// Allocates a block of a class or of its substitute, from the lists, the inbox or the slabs. `None` when there is
    /// no memory.
    pub fn allocate(mut self, class: usize) -> Option<NonNull<u8>> {
        let heap = self.heap();
        let cache = self.cache();
        if let Some(block) = cache.pop(class) {
            return Some(block);
        }
        let front = heap.front();
        let mut slabs = heap.slabs.lock();
        let is_loaded = slabs.arrived.first().is_some() || front.inbox.is_loaded();
        front.inbox.reset_budget();
        if is_loaded {
            cache.collect(&front.inbox, &mut slabs, front.inbox.worth_collecting());
        }
        let block = cache.pop(class).or_else(|| {
            let class = if cache.lists[class].count_request() { class } else { substitute_of(class) };
            cache.pop(class).or_else(|| cache.refill(class, &mut slabs))
        });
        drop(slabs);
        if is_loaded {
            self.reclaim_overdue();
        }
        block
    }

    /// As [`Owned::allocate`], at a multiple of `align`, a power of two that divides the length of the class's blocks.
    pub fn allocate_aligned(mut self, class: usize, align: usize) -> Option<NonNull<u8>> {
        let block = self.allocate(class)?;
        if block.addr().get() % align == 0 {
            return Some(block);
        }
        // It was carved from a dissolved slab.
        let mut slabs = self.heap().slabs.lock();
        let aligned = self.cache().take_of_class(class, &mut slabs);
        drop(slabs);
        // SAFETY: the block was just allocated in this heap, and not used.
        unsafe { self.give_any(block.as_ptr()) };
        aligned
    }

    /// Frees a block of another heap by the remote-free buffers; `false` when it is the last freed one. If the owner's
    /// inbox is over its budget, this thread reclaims for it.
    ///
    /// # Safety
    /// `block` is of that origin and is not used.
    #[inline]
    pub unsafe fn send(mut self, block: NonNull<u8>, origin: &Origin) -> bool {
        // SAFETY: the caller's promise.
        let is_sent = unsafe { self.cache().send(block, origin) };
        self.reclaim_overdue();
        is_sent
    }

    #[inline]
    fn reclaim_overdue(&mut self) {
        match core::mem::take(&mut self.cache().overdue) {
            0 => {}
            owner => reclaim(owner),
        }
    }

    /// Flushes the thread cache and the inbox into the slabs, and the remote-free buffers into their owners' inboxes.
    /// Long blocks stay.
    pub fn flush(mut self) {
        let heap = self.heap();
        let front = heap.front();
        let cache = self.cache();
        let mut slabs = heap.slabs.lock();
        cache.collect(&front.inbox, &mut slabs, usize::MAX);
        cache.flush_all(&mut slabs);
        drop(slabs);
        self.flush_remote_buffers();
    }

    /// Sends the blocks in the remote-free buffers to their owners.
    fn flush_remote_buffers(&mut self) {
        for number in 0..REMOTE_BUFFERS {
            if let Some(owner) = self.cache().remote_buffers[number].flush() {
                reclaim(owner);
            }
        }
        self.reclaim_overdue();
    }

    /// Purges the idle pages of the heap's slabs; returns how many bytes that were.
    pub fn purge_idle(self) -> usize {
        let mut slabs = self.heap().slabs.lock();
        let before = slabs.pages.resident;
        slabs.purge_idle(&|| false);
        (before - slabs.pages.resident) as usize * PAGE
    }

    /// Flushes the heap, frees its empty slabs, and purges the idle pages of the others.
    pub fn trim(self) {
        self.flush();
        let mut slabs = self.heap().slabs.lock();
        slabs.release_empty(&|| false);
        slabs.purge_idle(&|| false);
    }
}

/// Flushes the latest blocks of a list that is too long, of which `block` is the first. The heap is found by the block,
/// so that `give` does not need registers for both.
///
/// # Safety
/// The block is of the calling thread's heap.
#[cold]
#[inline(never)]
unsafe fn overflow(block: *mut u8, class: usize) {
    let Some(number) = ARENA.number_of(block.addr()) else { return };
    let heap = Heap::of(ARENA.entry(number).owner());
    // SAFETY: the caller's promise.
    let mut owned = Owned(unsafe { ThreadHeap::new(heap) });
    let cache = owned.cache();
    let front = heap.front();
    let mut slabs = heap.slabs.lock();
    cache.flush_full(class, &mut slabs);
    if front.inbox.is_over_budget() {
        cache.collect(&front.inbox, &mut slabs, front.inbox.worth_collecting());
    } else {
        cache.purge_idle_if_much(&mut slabs);
    }
}
