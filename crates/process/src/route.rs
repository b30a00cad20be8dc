//! The way to the heap: through its lock, or directly.

use core::sync::atomic::{AtomicU8, Ordering};

use crate::heap::Heap;

/// The heap has not been created yet.
pub(crate) const UNKNOWN: u8 = 0;
pub(crate) const BEHIND_LOCK: u8 = 1;
pub(crate) const CACHED: u8 = 2;

static PATH: AtomicU8 = AtomicU8::new(UNKNOWN);

/// Stores the code path that leads to the heap.
pub(crate) fn open(heap: &Heap) {
    PATH.store(if matches!(heap, Heap::Cached) { CACHED } else { BEHIND_LOCK }, Ordering::Release);
}

/// Returns the code path, as far as it is known.
#[inline(always)]
pub(crate) fn known() -> u8 {
    PATH.load(Ordering::Acquire)
}
