//! The heap of the calling thread.

use crate::heap::{EMPTY, Heap, Owned, ThreadHeap};
use crate::mode;

#[cfg(not(loom))]
heapwright_os::thread_slot! {
    /// The calling thread's heap in the usual mode, otherwise the empty heap.
    mod slot, "heapwright_cached_heap": *const crate::heap::Heap = crate::heap::EMPTY
}

#[cfg(not(loom))]
heapwright_os::thread_slot! {
    /// The calling thread's heap in all other modes.
    mod kept_slot, "heapwright_cached_kept_heap": *const crate::heap::Heap = crate::heap::EMPTY
}

#[cfg(loom)]
use slot as kept_slot;

/// The slot of a thread of a model.
#[cfg(loom)]
mod slot {
    use core::cell::Cell;

    use crate::heap::{EMPTY, Heap};

    loom::thread_local! {
        static SLOT: Cell<Option<*const Heap>> = Cell::new(None);
    }

    pub(super) fn get() -> *const Heap {
        SLOT.with(|slot| slot.get()).unwrap_or(&*EMPTY)
    }

    pub(super) fn set(heap: *const Heap) {
        SLOT.with(|slot| slot.set(Some(heap)));
    }
}

/// Returns the heap in the calling thread's slot, which may be the empty heap.
#[inline(always)]
pub fn heap() -> ThreadHeap {
    // SAFETY: the slot contains the address of a heap, which is never released and is no other thread's.
    unsafe { ThreadHeap::new(&*slot::get()) }
}

/// Returns the calling thread's heap, in whichever slot it is; `None` when it has none.
pub fn heap_if_any() -> Option<Owned> {
    let heap = if mode::is_usual() { heap() } else { kept_heap() };
    heap.owned()
}

/// Returns the calling thread's heap in all modes but the usual one, which may be the empty heap.
#[inline(always)]
pub fn kept_heap() -> ThreadHeap {
    // SAFETY: as in `heap`.
    unsafe { ThreadHeap::new(&*kept_slot::get()) }
}

/// Makes a heap the calling thread's.
pub fn set_heap(heap: &'static Heap) {
    if mode::is_usual() { slot::set(heap) } else { kept_slot::set(heap) }
}

/// Leaves the calling thread without a heap.
pub fn unset_heap() {
    set_heap(&EMPTY);
}
