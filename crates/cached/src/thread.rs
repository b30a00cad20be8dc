//! Which heap is the calling thread's, and what becomes of it when the thread ends.

use core::ffi::c_void;
use core::ptr::from_ref;

use heapwright_os::{Refused, ThreadEnd};

use crate::ground::GROUND;
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
    let adopted = GROUND.shared()?.adopt_heap()?;
    // First of all, for what follows may allocate.
    slot::set(adopted);
    END.tell(from_ref(adopted).cast::<c_void>());
    Some(adopted)
}

/// Gets ready to hear of threads' ends.
pub(crate) fn prepare() -> Result<(), Refused> {
    END.prepare()
}

/// The calling thread ends: what it kept goes back, and its heap waits for another thread.
unsafe extern "C" fn part(_heap: *mut c_void) {
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
