//! Which heap is the calling thread's, and what becomes of it when the thread ends.

use core::ffi::c_void;

use core::sync::atomic::{AtomicBool, Ordering};

use heapwright_os::{Refused, ThreadEnd, at_fork};

use crate::ground::{GROUND, Held};
use crate::heap::{EMPTY, Heap};

heapwright_os::thread_slot! {
    /// The calling thread's heap; at first the empty one.
    mod slot, "heapwright_cached_heap": *const crate::heap::Heap = crate::heap::EMPTY
}

static END: ThreadEnd = ThreadEnd::new(part);

/// The calling thread's heap, which may be the empty one: every thread can take from it, and nobody can give to it.
#[inline(always)]
pub(crate) fn heap() -> &'static Heap {
    // SAFETY: the slot holds the address of a heap, and heaps are never unmade.
    unsafe { &*slot::get() }
}

/// The calling thread's heap, got now if it has none; `None` when there are too many threads, or no ground.
#[inline]
pub(crate) fn heap_of_its_own() -> Option<&'static Heap> {
    let heap = heap();
    if heap.owner() != 0 { Some(heap) } else { adopt() }
}

#[cold]
fn adopt() -> Option<&'static Heap> {
    let adopted = ground()?.adopt_heap()?;
    // First of all, for what follows may allocate.
    slot::set(adopted);
    END.tell();
    Some(adopted)
}

/// What all threads share, made now if it is not there; `None` when there is no address space.
pub(crate) fn ground() -> Option<Held> {
    if !GROUND.is_ready() {
        begin()?;
    }
    GROUND.shared()
}

/// Gets ready for a program that has not asked for it.
#[cold]
fn begin() -> Option<()> {
    static FORKS_ARE_SEEN: AtomicBool = AtomicBool::new(false);
    crate::start().ok()?;
    // Made by one thread: others find the ground ready. What the entry takes of memory may be allocated here.
    if !FORKS_ARE_SEEN.swap(true, Ordering::Relaxed) {
        at_fork(before_fork, after_fork_in_parent, after_fork_in_child).ok()?;
    }
    Some(())
}

extern "C" fn before_fork() {
    crate::before_fork();
}

extern "C" fn after_fork_in_parent() {
    // SAFETY: this thread called `before_fork`.
    unsafe { crate::after_fork_in_parent() };
}

extern "C" fn after_fork_in_child() {
    // SAFETY: this thread's likeness called `before_fork`.
    unsafe { crate::after_fork_in_child() };
}

/// Gets ready to hear of threads' ends.
pub(crate) fn prepare() -> Result<(), Refused> {
    END.prepare()
}

/// The calling thread ends: what it kept goes back, and its heap waits for another thread.
unsafe extern "C" fn part(_: *mut c_void) {
    let heap = heap();
    if heap.owner() == 0 {
        return;
    }
    // SAFETY: it is this thread's, and not the empty one.
    unsafe { heap.put_away() };
    slot::set(&raw const EMPTY);
    if let Some(mut ground) = GROUND.shared() {
        ground.abandon_heap(heap);
    }
}
