//! A growing heap as a Rust program's global allocator.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::{NonNull, null_mut};

use heapwright_os::{Lock, Locked};
use heapwright_placement::PolicyKind;

use super::{GrowingHeap, Settings};
use crate::policy::{Chosen, Policy};

/// A [`GrowingHeap`] behind a lock, created at the first allocation.
///
/// ```
/// use heapwright::{BestFit, GlobalHeap};
///
/// #[global_allocator]
/// static HEAP: GlobalHeap<BestFit> = GlobalHeap::new();
///
/// let words: Vec<String> = (0..100).map(|n| n.to_string()).collect();
/// assert!(HEAP.with(|heap| heap.counters().unwrap().live).unwrap() >= 100);
/// # drop(words);
/// ```
pub struct GlobalHeap<P: Policy = Chosen> {
    choice: P::Choice,
    heap: Lock<Option<GrowingHeap<P>>>,
}

// SAFETY: the choice is `Sync` and only read, and the heap is protected by the lock.
unsafe impl<P: Policy> Sync for GlobalHeap<P> where P::Choice: Sync {}

impl GlobalHeap<Chosen> {
    /// Creates a heap under `policy`.
    #[must_use]
    pub const fn with_policy(policy: PolicyKind) -> Self {
        GlobalHeap { choice: policy, heap: Lock::new(None) }
    }
}

impl<P: Policy<Choice = ()>> GlobalHeap<P> {
    /// Creates a heap under the policy of its type.
    #[must_use]
    pub const fn new() -> Self {
        GlobalHeap { choice: (), heap: Lock::new(None) }
    }
}

impl<P: Policy<Choice = ()>> Default for GlobalHeap<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: Policy> GlobalHeap<P> {
    /// Runs `inspect` on the heap, which must not allocate; returns `None` when nothing has been allocated yet.
    pub fn with<R>(&self, inspect: impl FnOnce(&mut GrowingHeap<P>) -> R) -> Option<R> {
        self.heap.lock().as_mut().map(inspect)
    }

    fn ready(&self) -> Locked<'_, Option<GrowingHeap<P>>> {
        let mut heap = self.heap.lock();
        if heap.is_none() {
            *heap = GrowingHeap::with(self.choice, &Settings::default()).ok();
        }
        heap
    }
}

fn pointer<E>(result: Option<Result<NonNull<u8>, E>>) -> *mut u8 {
    result.and_then(Result::ok).map_or(null_mut(), NonNull::as_ptr)
}

// SAFETY: the heap returns blocks of at least the requested size and alignment, which never move and do not overlap.
unsafe impl<P: Policy> GlobalAlloc for GlobalHeap<P>
where
    P::Choice: Sync,
{
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        pointer(self.ready().as_mut().map(|heap| heap.allocate(layout)))
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        pointer(self.ready().as_mut().map(|heap| heap.allocate_zeroed(layout)))
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block came from `alloc` with this layout, so that it is not null and live, and the caller does
        // not use it after this call, as `GlobalAlloc` requires.
        let _ = self.with(|heap| unsafe { heap.deallocate(NonNull::new_unchecked(block), layout) });
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Ok(new) = Layout::from_size_align(size, layout.align()) else { return null_mut() };
        // SAFETY: the block came from `alloc` with this layout, so that it is not null and live; the caller does not
        // use the old block after success. Growing and shrinking are the same operation.
        pointer(self.with(|heap| unsafe { heap.grow(NonNull::new_unchecked(block), layout, new) }))
    }
}
