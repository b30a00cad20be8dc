//! The heaps of the process: which thread has which heap, and which heaps are idle.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use heapwright_os::{has_thread, process_id, thread_id};

use super::front::MADE;
use super::parts::Heap;
use super::tenancy::{IDLE, Pages};
use super::thread_heap::{Owned, ThreadHeap};
use crate::arena::{ARENA, ArenaState, Registry};

/// Whether heaps are locked for a fork. A process with one thread forks without locking any.
static ARE_HELD: AtomicBool = AtomicBool::new(false);

impl ArenaState {
    /// Returns a heap for the calling thread, an idle one or a new one; `None` when there are too many.
    pub fn adopt_heap(&mut self) -> Option<Owned> {
        // Without room for a new heap, there may still be an idle one.
        let _ = self.cover_next_heap();
        self.heaps.adopt()
    }
}

impl Registry {
    fn adopt(&mut self) -> Option<Owned> {
        /// The number of heaps that are checked for an orphan: it bounds the number of orphans, at little cost.
        const CHECKED: u32 = 2;
        let heap = self.take_idle().or_else(|| self.take_orphan(CHECKED)).or_else(|| self.make())?;
        let tenancy = heap.tenancy();
        tenancy.thread.store(thread_id(), Relaxed);
        tenancy.generation.set(self.generation);
        // The only heap has no visitors, and reading the clock for the first time costs a small program 128 KiB.
        if self.made > 1 {
            heap.record_adoption();
        }
        own(heap)
    }

    /// Makes the flushed heap of a thread that has ended idle: other threads may take its slabs. One that keeps its
    /// pages is the first to be adopted, another one the last.
    pub fn abandon(&mut self, heap: Owned, pages: Pages) {
        heap.heap().tenancy().pages.set(pages);
        match pages {
            Pages::Kept => self.list(heap.heap(), 0, self.idle),
            Pages::Purged => self.list(heap.heap(), self.last_idle, 0),
        }
    }

    /// Returns whether at least `count` idle heaps keep their pages. Time: proportional to the count.
    pub fn has_kept(&self, count: usize) -> bool {
        // They precede the others in the list.
        let kept = self.all_idle().take_while(|heap| heap.tenancy().pages.get() == Pages::Kept);
        kept.take(count).count() == count
    }

    /// Puts a heap into the list of idle heaps between two neighbours; 0 for none.
    fn list(&mut self, heap: &'static Heap, previous: u32, next: u32) {
        let tenancy = heap.tenancy();
        tenancy.thread.store(IDLE, Relaxed);
        tenancy.previous_idle.set(previous);
        tenancy.next_idle.set(next);
        self.link(previous, heap.owner());
        self.link_back(next, heap.owner());
    }

    /// Makes heap `next` follow `previous` in the list; 0 for its ends.
    fn link(&mut self, previous: u32, next: u32) {
        match previous {
            0 => self.idle = next,
            _ => Heap::of(previous).tenancy().next_idle.set(next),
        }
    }

    /// Makes heap `previous` precede `next` in the list; 0 for its ends.
    fn link_back(&mut self, next: u32, previous: u32) {
        match next {
            0 => self.last_idle = previous,
            _ => Heap::of(next).tenancy().previous_idle.set(previous),
        }
    }

    /// Takes an idle heap out of the list of idle heaps.
    fn unlist(&mut self, heap: &'static Heap) {
        let tenancy = heap.tenancy();
        let (previous, next) = (tenancy.previous_idle.get(), tenancy.next_idle.get());
        self.link(previous, next);
        self.link_back(next, previous);
        tenancy.thread.store(0, Relaxed);
    }

    /// Returns the first idle heaps, a few at most.
    pub(crate) fn idle(&self) -> impl Iterator<Item = &'static Heap> + use<> {
        const MOST: usize = 8;
        self.all_idle().take(MOST)
    }

    /// Returns the idle heaps in the order in which they are adopted.
    fn all_idle(&self) -> impl Iterator<Item = &'static Heap> + use<> {
        let mut owner = self.idle;
        core::iter::from_fn(move || {
            (owner != 0).then(|| {
                let heap = Heap::of(owner);
                owner = heap.tenancy().next_idle.get();
                heap
            })
        })
    }

    /// Returns all heaps, the idle ones among them.
    pub fn all(&self) -> impl Iterator<Item = &'static Heap> + use<> {
        all_up_to(self.made)
    }

    /// Returns whether the registry is of the process of this number: not where a child shares its parent's memory.
    pub fn is_of(&self, process: u32) -> bool {
        self.process == process
    }

    /// Returns the number of heaps that were ever made; their numbers begin at 1.
    pub fn made(&self) -> u32 {
        self.made
    }

    /// Returns an orphan (see [`Registry::take_orphan`]), which the calling thread flushes and abandons.
    pub fn orphan(&mut self) -> Option<Owned> {
        self.take_orphan(self.made).and_then(own)
    }

    /// Returns whether the calling thread has locked the slabs of another thread's heap.
    pub fn is_visiting() -> bool {
        made_heaps().any(Heap::is_visited_by_this_thread)
    }

    /// Locks the slabs of all heaps but the calling thread's, as far as they are not locked, from before a fork until
    /// after it. This thread has locked the arena.
    pub fn hold_for_fork() {
        made_heaps().for_each(Heap::try_hold_for_fork);
        ARE_HELD.store(true, Relaxed);
    }

    /// Unlocks the slabs of all heaps, the calling thread's among them.
    pub fn let_go() {
        if ARE_HELD.swap(false, Relaxed) {
            made_heaps().for_each(Heap::let_go);
        }
    }

    /// Prepares the heaps for the child of a fork. The lists of the parent's other threads are not used in the child.
    /// The slabs of their heaps are usable unless a thread had locked them.
    pub fn leave_to_parent(&mut self) {
        self.generation += 1;
        self.process = process_id();
        if !ARE_HELD.swap(false, Relaxed) {
            // The parent had no other threads.
            return;
        }
        for heap in self.all() {
            if !heap.let_go_in_child() && heap.tenancy().is_idle() {
                self.unlist(heap);
            }
        }
    }

    fn take_idle(&mut self) -> Option<&'static Heap> {
        let latest = self.idle().next()?;
        self.unlist(latest);
        Some(latest)
    }

    fn make(&mut self) -> Option<&'static Heap> {
        let owner = self.made + 1;
        if owner as usize > ARENA.room_for_heaps() {
            return None;
        }
        // SAFETY: the table has a place of that number, and no heap is there yet.
        unsafe { Heap::make(owner) };
        self.made = owner;
        MADE.store(owner, Release);
        Some(Heap::of(owner))
    }

    /// Checks up to `most` heaps for an orphan: a heap whose thread has ended without a call of its exit handler,
    /// because its last destructor allocated or the system refused to register the handler. Its lists still have
    /// blocks.
    fn take_orphan(&mut self, most: u32) -> Option<&'static Heap> {
        // In a process that was made by a system call instead of `fork`, the numbers of threads have changed.
        if process_id() != self.process {
            return None;
        }
        (0..most.min(self.made)).find_map(|_| {
            self.checked = self.checked % self.made + 1;
            let heap = Heap::of(self.checked);
            let tenancy = heap.tenancy();
            let thread = tenancy.thread.load(Relaxed);
            let is_orphan = thread != 0
                && thread != IDLE
                && tenancy.generation.get() == self.generation
                && !has_thread(thread)
                && !heap.is_held_by_owner();
            is_orphan.then(|| {
                tenancy.thread.store(0, Relaxed);
                heap
            })
        })
    }
}

/// Returns a heap as the calling thread's.
fn own(heap: &'static Heap) -> Option<Owned> {
    // SAFETY: the heap was idle, an orphan or new, and its tenancy does not let another thread adopt it.
    unsafe { ThreadHeap::new(heap) }.owned()
}

/// Returns all heaps.
fn made_heaps() -> impl Iterator<Item = &'static Heap> {
    all_up_to(MADE.load(Acquire))
}

fn all_up_to(made: u32) -> impl Iterator<Item = &'static Heap> {
    (1..=made).map(Heap::of)
}
