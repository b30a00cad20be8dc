//! The heaps of threads from adoption to abandonment.

use core::ffi::c_void;

use crate::departure::{keep_or_purge, tidy_after_thread};
use crate::{harden, long, startup};
use heapwright_slabs::arena::ARENA;
use heapwright_slabs::heap::{Owned, Pages, reclaim};
use heapwright_slabs::platform::{ThreadEnd, is_single_threaded};
use heapwright_slabs::{mode, thread};

static END: ThreadEnd = ThreadEnd::new(on_thread_exit);

/// Returns the calling thread's heap to allocate in; it adopts one if it has none. `None` when there are too many
/// threads, when there is no address space, or in the hardened heap, which does not use thread caches.
#[inline]
pub(crate) fn heap_to_allocate_in() -> Option<Owned> {
    thread::heap().owned().or_else(heap_behind_slot)
}

#[cold]
#[inline(never)]
fn heap_behind_slot() -> Option<Owned> {
    startup::ready()?;
    if mode::is_hardened() { None } else { adopted() }
}

/// Returns the calling thread's heap if its cache of long blocks is used: not while the process has a single thread,
/// for which the arena's lock takes no time.
pub(crate) fn heap_for_long_blocks() -> Option<Owned> {
    if is_single_threaded() { None } else { heap_to_allocate_in() }
}

/// Returns the calling thread's heap, in whichever slot it is; it adopts one if it has none. `None` when there are too
/// many threads.
pub(crate) fn adopted() -> Option<Owned> {
    thread::heap_if_any().or_else(adopt)
}

#[cold]
#[inline(never)]
fn adopt() -> Option<Owned> {
    startup::ready()?;
    let adopted = ARENA.lock()?.adopt_heap()?;
    // Before anything else, because registering the end may allocate.
    thread::set_heap(adopted.heap());
    // If the process has used all its keys, the heap is found as an orphan when another thread adopts one.
    END.tell();
    Some(adopted)
}

unsafe extern "C" fn on_thread_exit(_: *mut c_void) {
    leave();
    tidy_after_thread();
}

/// Flushes and abandons the calling thread's heap.
pub(crate) fn leave() {
    let Some(heap) = thread::heap_if_any() else { return };
    if mode::is_hardened() {
        harden::flush(heap);
    }
    long::flush_cache(heap);
    heap.flush();
    let pages = keep_or_purge(heap);
    thread::unset_heap();
    abandon(heap, pages);
}

/// Makes a flushed heap idle.
pub(crate) fn abandon(heap: Owned, pages: Pages) {
    if let Some(mut arena) = ARENA.lock() {
        arena.heaps.abandon(heap, pages);
    }
    // Blocks may have been sent after the flush by threads for which the heap was not idle yet.
    reclaim(heap.owner());
}
