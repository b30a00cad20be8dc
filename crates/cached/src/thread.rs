//! Which heap is the calling thread's, and what becomes of it when the thread ends.

use core::ffi::c_void;

use core::sync::atomic::{AtomicBool, Ordering};

use heapwright_os::{Refused, ThreadEnd, at_fork};

use crate::counts;
use crate::ground::{GROUND, Held};
use crate::heap::{EMPTY, Heap};

heapwright_os::thread_slot! {
    /// The calling thread's heap; at first the empty one.
    mod slot, "heapwright_cached_heap": *const crate::heap::Heap = crate::heap::EMPTY
}

heapwright_os::thread_slot! {
    /// The same, where everything is counted: the other slot has the empty one then.
    mod counted_slot, "heapwright_cached_counted_heap": *const crate::heap::Heap = crate::heap::EMPTY
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
    if heap.owner() != 0 { Some(heap) } else { heap_behind_slot().or_else(adopt) }
}

/// The calling thread's heap, if it has one.
pub(crate) fn heap_if_any() -> Option<&'static Heap> {
    Some(heap()).filter(|heap| heap.owner() != 0).or_else(heap_behind_slot)
}

/// The calling thread's heap where everything is counted.
#[cold]
fn heap_behind_slot() -> Option<&'static Heap> {
    // SAFETY: as in `heap`.
    Some(unsafe { &*counted_slot::get() }).filter(|heap| heap.owner() != 0)
}

/// Makes a heap the calling thread's.
fn set_heap(heap: *const Heap) {
    if counts::are_kept() { counted_slot::set(heap) } else { slot::set(heap) }
}

#[cold]
fn adopt() -> Option<&'static Heap> {
    let adopted = ground()?.heaps.adopt()?;
    // First of all, for what follows may allocate.
    set_heap(adopted);
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
    // Made by one thread. What the entry takes of memory may be allocated here: then that gets ready.
    if !FORKS_ARE_SEEN.swap(true, Ordering::Relaxed)
        && at_fork(before_fork, after_fork_in_parent, after_fork_in_child).is_err()
    {
        FORKS_ARE_SEEN.store(false, Ordering::Relaxed);
        return None;
    }
    crate::start().ok()
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
    let Some(heap) = heap_if_any() else { return };
    // SAFETY: it is this thread's, and not the empty one.
    unsafe { heap.put_away() };
    set_heap(&raw const EMPTY);
    abandon(heap);
}

/// Keeps a heap that nobody works on for the next thread.
pub(crate) fn abandon(heap: &'static Heap) {
    if let Some(mut ground) = GROUND.shared() {
        ground.heaps.abandon(heap);
    }
}
