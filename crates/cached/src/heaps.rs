//! The heaps of the process: who has which, and which wait for a thread.

use core::cell::Cell;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU32};

use heapwright_os::{has_thread, process_id, thread_id};

use crate::ground::GROUND;
use crate::heap::{Heap, Owned, ThreadHeap};
use crate::world::only_one;

/// How many threads may have a heap of their own at once; the others' blocks are placed by the engine, behind its lock.
pub(crate) const HEAPS: usize = 1 << 14;

/// Whose a heap is. Touched behind the ground's lock only, but for a look whether the heap is idle.
pub(crate) struct Tenancy {
    /// The system's number of its thread, or [`IDLE`]; 0 for a heap without a thread that is not to be had: another thread
    /// empties its lists, or a fork's child cannot use it.
    thread: AtomicU32,
    /// How many forks there were between the process's first ancestor and the one whose thread that is.
    generation: Cell<u32>,
    next_idle: Cell<u32>,
    previous_idle: Cell<u32>,
}

/// No thread's number.
const IDLE: u32 = u32::MAX;

impl Tenancy {
    /// Nobody's.
    pub(crate) const fn new() -> Tenancy {
        Tenancy {
            thread: AtomicU32::new(0),
            generation: Cell::new(0),
            next_idle: Cell::new(0),
            previous_idle: Cell::new(0),
        }
    }

    /// Whether the heap waits for a thread: a hint, for who does not hold the ground.
    pub(crate) fn is_idle(&self) -> bool {
        self.thread.load(Relaxed) == IDLE
    }
}

/// Whether heaps are held for a fork. A process with one thread forks without holding any.
static ARE_HELD: AtomicBool = AtomicBool::new(false);

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
    pub(crate) fn adopt(&mut self) -> Option<Owned> {
        /// So that threads whose ends were not told leave a bounded number of heaps behind, at little cost to the others.
        const LOOKED_AT: u32 = 2;
        let heap = self.take_idle().or_else(|| self.take_orphan(LOOKED_AT)).or_else(|| self.make())?;
        let tenancy = heap.tenancy();
        tenancy.thread.store(thread_id(), Relaxed);
        tenancy.generation.set(self.generation);
        own(heap)
    }

    /// Keeps the heap of a thread that has ended for the next. It has been put away: others may take its slabs.
    pub(crate) fn abandon(&mut self, heap: Owned) {
        let tenancy = heap.heap().tenancy();
        tenancy.thread.store(IDLE, Relaxed);
        tenancy.previous_idle.set(0);
        tenancy.next_idle.set(self.idle);
        if self.idle != 0 {
            GROUND.heap(self.idle).tenancy().previous_idle.set(heap.owner());
        }
        self.idle = heap.owner();
    }

    /// Takes an idle heap out of the list of these.
    fn unlist(&mut self, heap: &'static Heap) {
        let tenancy = heap.tenancy();
        let (previous, next) = (tenancy.previous_idle.get(), tenancy.next_idle.get());
        if previous == 0 {
            self.idle = next;
        } else {
            GROUND.heap(previous).tenancy().next_idle.set(next);
        }
        if next != 0 {
            GROUND.heap(next).tenancy().previous_idle.set(previous);
        }
        tenancy.thread.store(0, Relaxed);
    }

    /// The latest few heaps of threads that have ended.
    pub(crate) fn idle(&self) -> impl Iterator<Item = &'static Heap> + use<> {
        const LOOKED_AT: usize = 8;
        let mut owner = self.idle;
        let all = core::iter::from_fn(move || {
            (owner != 0).then(|| {
                let heap = GROUND.heap(owner);
                owner = heap.tenancy().next_idle.get();
                heap
            })
        });
        all.take(LOOKED_AT)
    }

    /// All heaps, those of threads that have ended among them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &'static Heap> + use<> {
        all_up_to(self.made)
    }

    /// How many were ever made; their numbers begin at 1.
    pub(crate) fn made(&self) -> u32 {
        self.made
    }

    /// A heap whose thread is no more though its end was not told, for the calling thread to put it away and abandon it.
    pub(crate) fn orphan(&mut self) -> Option<Owned> {
        self.take_orphan(self.made).and_then(own)
    }

    /// Keeps other threads out of the slabs of all heaps but the calling thread's, as far as they are not at work there, from
    /// before a fork until after it. This thread has the ground.
    pub(crate) fn hold_for_fork() {
        made_heaps().for_each(Heap::try_hold_for_fork);
        ARE_HELD.store(true, Relaxed);
    }

    /// Lets them in again, to the calling thread's heap, too.
    pub(crate) fn let_go() {
        if ARE_HELD.swap(false, Relaxed) {
            made_heaps().for_each(Heap::let_go);
        }
    }

    /// In the child of a fork: the lists of the parent's other threads stay with them. Their heaps' slabs are usable as far as
    /// no thread was at work on them.
    pub(crate) fn leave_to_parent(&mut self) {
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
        if owner as usize >= GROUND.room_for_heaps() {
            return None;
        }
        // SAFETY: the place is within the room for heaps, and nobody has it.
        unsafe { Heap::make(GROUND.place_of_heap(owner), owner) };
        self.made = owner;
        MADE.store(owner, Release);
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

/// A heap that has become the calling thread's.
fn own(heap: &'static Heap) -> Option<Owned> {
    // SAFETY: the heap was idle, an orphan or new, and its tenancy says now that it is not to be had.
    unsafe { ThreadHeap::new(heap) }.owned()
}

only_one! {
/// How many heaps were made, for a thread that holds the ground from before a fork until after it.
static MADE: AtomicU32 = AtomicU32::new(0);
}

/// All heaps.
fn made_heaps() -> impl Iterator<Item = &'static Heap> {
    all_up_to(MADE.load(Acquire))
}

fn all_up_to(made: u32) -> impl Iterator<Item = &'static Heap> {
    (1..=made).map(|owner| GROUND.heap(owner))
}
