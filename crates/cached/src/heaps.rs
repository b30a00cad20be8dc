//! The heaps of the process: who has which, and which wait for a thread.

use core::cell::Cell;

use heapwright_os::{has_thread, process_id, thread_id};

use crate::ground::GROUND;
use crate::heap::Heap;

/// How many threads may have a heap of their own at once; the others' blocks are placed by the engine, behind its lock.
pub(crate) const HEAPS: usize = 1 << 14;

/// Whose a heap is. Touched behind the ground's lock only.
pub(crate) struct Tenancy {
    /// The system's number of its thread; 0 while the heap is idle.
    thread: Cell<u32>,
    /// How many forks there were between the process's first ancestor and the one whose thread that is.
    generation: Cell<u32>,
    next_idle: Cell<u32>,
}

impl Tenancy {
    /// Nobody's.
    pub(crate) const fn new() -> Tenancy {
        Tenancy { thread: Cell::new(0), generation: Cell::new(0), next_idle: Cell::new(0) }
    }
}

/// Who has which heap.
pub(crate) struct Heaps {
    /// How many were ever made.
    made: u32,
    /// Those whose threads have ended, the latest first; they are linked by their numbers.
    idle: u32,
    /// The one that was looked at last whether its thread is still there.
    looked_at: u32,
    generation: u32,
    process: u32,
}

impl Heaps {
    pub(crate) fn new() -> Heaps {
        Heaps { made: 0, idle: 0, looked_at: 0, generation: 0, process: process_id() }
    }

    /// A heap for the calling thread: that of one that has ended, or a new one. `None` when there are too many.
    pub(crate) fn adopt(&mut self) -> Option<&'static Heap> {
        /// So that threads whose ends were not told leave a bounded number of heaps behind, at little cost to the others.
        const LOOKED_AT: u32 = 2;
        let heap = self.take_idle().or_else(|| self.take_orphan(LOOKED_AT)).or_else(|| self.make())?;
        let tenancy = heap.tenancy();
        tenancy.thread.set(thread_id());
        tenancy.generation.set(self.generation);
        Some(heap)
    }

    /// Keeps the heap of a thread that has ended for the next. It has been put away: others may take its slabs.
    pub(crate) fn abandon(&mut self, heap: &'static Heap) {
        heap.tenancy().thread.set(0);
        heap.tenancy().next_idle.set(self.idle);
        self.idle = heap.owner();
    }

    /// The latest few heaps of threads that have ended.
    pub(crate) fn idle(&self) -> impl Iterator<Item = &'static Heap> + use<> {
        const LOOKED_AT: usize = 8;
        self.all_idle().take(LOOKED_AT)
    }

    /// All heaps of threads that have ended, the latest first.
    pub(crate) fn all_idle(&self) -> impl Iterator<Item = &'static Heap> + use<> {
        chain(self.idle)
    }

    /// How many were ever made; their numbers begin at 1.
    pub(crate) fn made(&self) -> u32 {
        self.made
    }

    /// All heaps of threads that have ended, for the calling thread to work on: it puts each away, and abandons it again.
    pub(crate) fn take_all_idle(&mut self) -> impl Iterator<Item = &'static Heap> + use<> {
        while let Some(orphan) = self.take_orphan(self.made) {
            self.abandon(orphan);
        }
        chain(core::mem::take(&mut self.idle))
    }

    /// In the child of a fork: the heaps of the parent's other threads stay with them.
    pub(crate) fn leave_to_parent(&mut self) {
        self.generation += 1;
        self.process = process_id();
    }

    fn take_idle(&mut self) -> Option<&'static Heap> {
        let heap = chain(self.idle).next()?;
        self.idle = heap.tenancy().next_idle.get();
        Some(heap)
    }

    fn make(&mut self) -> Option<&'static Heap> {
        let owner = self.made + 1;
        if owner as usize >= GROUND.room_for_heaps() {
            return None;
        }
        // SAFETY: the place is within the room for heaps, and nobody has it.
        unsafe { Heap::make(GROUND.place_of_heap(owner), owner) };
        self.made = owner;
        Some(GROUND.heap(owner))
    }

    /// Looks at up to `most` heaps for one whose thread is no more though its end was not told: a last destructor made it
    /// adopt a heap once more, or the system refused to tell. Such a heap is as its thread left it, with blocks in its lists.
    fn take_orphan(&mut self, most: u32) -> Option<&'static Heap> {
        // In a process that was made behind the C library's back, numbers of threads are not what they were.
        if process_id() != self.process {
            return None;
        }
        (0..most.min(self.made)).find_map(|_| {
            self.looked_at = self.looked_at % self.made + 1;
            let heap = GROUND.heap(self.looked_at);
            let tenancy = heap.tenancy();
            let thread = tenancy.thread.get();
            let is_orphan = thread != 0 && tenancy.generation.get() == self.generation && !has_thread(thread);
            is_orphan.then(|| {
                tenancy.thread.set(0);
                heap
            })
        })
    }
}

/// Idle heaps from the one of `owner` on.
fn chain(mut owner: u32) -> impl Iterator<Item = &'static Heap> {
    core::iter::from_fn(move || {
        (owner != 0).then(|| {
            let heap = GROUND.heap(owner);
            owner = heap.tenancy().next_idle.get();
            heap
        })
    })
}
