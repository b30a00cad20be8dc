//! Which heap is the calling thread's, and what becomes of it when the thread ends.

use core::ffi::c_void;

use core::sync::atomic::{AtomicBool, Ordering};

use heapwright_os::ForkPass;

use crate::ground::{GROUND, Held};
use crate::heap::{EMPTY, Heap, Owned, ThreadHeap, reclaim};
use crate::heaps::Heaps;
use crate::world::{ForkHandlers, ThreadEnd, at_fork};
#[cfg(all(loom, test))]
use crate::world::{slot, slot as kept_slot};
use crate::{harden, long, mode};

#[cfg(not(all(loom, test)))]
heapwright_os::thread_slot! {
    /// The calling thread's heap; at first the empty one.
    mod slot, "heapwright_cached_heap": *const crate::heap::Heap = crate::heap::EMPTY
}

#[cfg(not(all(loom, test)))]
heapwright_os::thread_slot! {
    /// The same where calls take the long way (`mode`): the other slot has the empty one then.
    mod kept_slot, "heapwright_cached_kept_heap": *const crate::heap::Heap = crate::heap::EMPTY
}

static END: ThreadEnd = ThreadEnd::new(part);

/// The calling thread's heap, which may be the empty one.
#[inline(always)]
pub(crate) fn heap() -> ThreadHeap {
    // SAFETY: the slot holds the address of a heap, which is never unmade and which only this thread has.
    unsafe { ThreadHeap::new(&*slot::get()) }
}

/// The calling thread's heap to allocate in, got now if it has none; `None` when there are too many threads, or no ground, or when
/// measures are taken that its lists know nothing of.
#[inline]
pub(crate) fn heap_of_its_own() -> Option<Owned> {
    heap().owned().or_else(heap_behind_slot)
}

#[cold]
fn heap_behind_slot() -> Option<Owned> {
    ready()?;
    if harden::is_on() { None } else { adopted() }
}

/// Gets ready if nobody has yet: before that it is not known which way calls take. `None` when there is no address space.
pub(crate) fn ready() -> Option<()> {
    if GROUND.is_ready() { Some(()) } else { begin() }
}

/// The calling thread's heap wherever it is kept, got now if it has none; `None` when there are too many threads.
pub(crate) fn adopted() -> Option<Owned> {
    heap_if_any().or_else(adopt)
}

/// The calling thread's heap, if it has one, wherever it is kept.
pub(crate) fn heap_if_any() -> Option<Owned> {
    // SAFETY: as in `heap`.
    let kept = if mode::is_usual() { heap() } else { unsafe { ThreadHeap::new(&*kept_slot::get()) } };
    kept.owned()
}

/// Makes a heap the calling thread's.
fn set_heap(heap: &'static Heap) {
    if mode::is_usual() { slot::set(heap) } else { kept_slot::set(heap) }
}

#[cold]
fn adopt() -> Option<Owned> {
    let adopted = ground()?.adopt_heap()?;
    // First of all, for what follows may allocate.
    set_heap(adopted.heap());
    // If the process has used all its keys, the thread's end is noticed later, when another thread adopts a heap.
    END.tell();
    Some(adopted)
}

/// What all threads share, made now if it is not there; `None` when there is no address space.
pub(crate) fn ground() -> Option<Held> {
    ready()?;
    GROUND.shared()
}

/// Gets ready for a program that has not asked for it.
#[cold]
fn begin() -> Option<()> {
    static FORKS_ARE_SEEN: AtomicBool = AtomicBool::new(false);
    harden::read_environment();
    // Made by one thread. What the entry takes of memory may be allocated here: then that gets ready.
    if !FORKS_ARE_SEEN.swap(true, Ordering::Relaxed) && at_fork(FORK_HANDLERS).is_err() {
        FORKS_ARE_SEEN.store(false, Ordering::Relaxed);
        return None;
    }
    crate::start().ok()
}

const FORK_HANDLERS: ForkHandlers = ForkHandlers {
    hold: crate::before_fork,
    // SAFETY: called after `hold`, by the thread that called that or by its copy.
    let_go: || unsafe { crate::after_fork() },
    // SAFETY: called in a child, before it can have started another thread.
    begin_child: || unsafe { crate::after_fork_in_child() },
};

unsafe extern "C" fn part(_: *mut c_void) {
    leave();
}

/// The calling thread ends: what it kept goes back, and its heap waits for another thread.
pub(crate) fn leave() {
    let Some(heap) = heap_if_any() else { return };
    if harden::is_on() {
        harden::stop_waiting(heap.owner());
    }
    long::release_kept(heap);
    heap.put_away();
    set_heap(&EMPTY);
    abandon(heap);
}

/// Keeps a heap that has been put away for the next thread.
pub(crate) fn abandon(heap: Owned) {
    if let Some(mut ground) = GROUND.shared() {
        ground.heaps.abandon(heap);
    }
    // What came after the heap was put away and before it was seen to be idle.
    reclaim(heap.owner());
}

/// Keeps other threads out of the calling thread's heap for a fork, as `pass` says. To be called before the ground is held;
/// then [`hold_other_heaps`].
pub(crate) fn hold_heap(pass: ForkPass<'_>) {
    let Some(own) = heap_if_any() else { return };
    match pass {
        ForkPass::Look(is_interrupted) => {
            if own.heap().is_held_by_owner() {
                is_interrupted.set(true);
            }
        }
        ForkPass::Take => own.heap().hold_for_fork(),
        ForkPass::TakeSoon => own.heap().hold_for_fork_soon(),
    }
}

/// The same for all other heaps where no thread is at work.
pub(crate) fn hold_other_heaps() {
    Heaps::hold_for_fork();
}

/// In a fork's child: a heap that a thread of the parent was at work on is the calling thread's no more.
pub(crate) fn leave_visited_heap() {
    if heap_if_any().is_some_and(|own| own.heap().is_visited()) {
        set_heap(&EMPTY);
    }
}

/// Undoes [`hold_heap`] and [`hold_other_heaps`] in the process that forked; in the child, the ground does
/// (`Heaps::leave_to_parent`).
pub(crate) fn let_go_of_heaps() {
    Heaps::let_go();
}
