//! The way to the heap: directly to the one that needs no lock, or through the lock to any other.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, Ordering};

use heapwright_cached::{self as cached, NotMoved};
use heapwright_heaps::FreeError;

use crate::complaint::{Call, complain};
use crate::exact::Exact;
use crate::heap::{Heap, NotResized, Resized};
use crate::state::{begin, with};

/// Nobody has looked yet.
const UNKNOWN: u8 = 0;
const BEHIND_LOCK: u8 = 1;
const CACHED: u8 = 2;

static WAY: AtomicU8 = AtomicU8::new(UNKNOWN);

/// Notes which way leads to the heap.
pub(crate) fn open(heap: &Heap) {
    WAY.store(if matches!(heap, Heap::Cached) { CACHED } else { BEHIND_LOCK }, Ordering::Release);
}

#[inline]
fn is_cached() -> bool {
    match WAY.load(Ordering::Acquire) {
        UNKNOWN => {
            begin();
            WAY.load(Ordering::Acquire) == CACHED
        }
        way => way == CACHED,
    }
}

/// What `act` comes to on the heap behind the lock; `None` when that is not where the heap is.
#[inline(always)]
fn behind_lock<R>(act: impl FnOnce(Exact<'_>) -> R) -> Option<R> {
    if is_cached() { None } else { with(|state| state.heap.exact().map(act)) }
}

/// A block for `layout`; `None` when there is no memory.
#[inline]
pub(crate) fn place(layout: Layout) -> Option<NonNull<u8>> {
    match behind_lock(|heap| heap.allocate(layout)) {
        Some(placed) => placed.ok(),
        None => cached::allocate_aligned(layout.size(), layout.align()).ok(),
    }
}

/// As [`place`], all zeros.
#[inline]
pub(crate) fn place_zeroed(layout: Layout) -> Option<NonNull<u8>> {
    match behind_lock(|heap| heap.allocate_zeroed(layout)) {
        Some(placed) => placed.ok(),
        None => cached::allocate_zeroed(layout.size()).ok(),
    }
}

/// Frees a block, or complains.
///
/// # Safety
/// If a used block starts at `block`, nobody uses it any more.
#[inline]
pub(crate) unsafe fn release(block: NonNull<u8>) {
    // SAFETY: the caller's promise.
    let freed = unsafe { behind_lock(|heap| heap.free(block)).unwrap_or_else(|| cached::free(block)) };
    freed.unwrap_or_else(|error| blame(Call::Free, block, error));
}

/// Frees a block whose length is held against what the caller says, or complains.
///
/// # Safety
/// As [`release`].
#[inline]
pub(crate) unsafe fn release_sized(block: NonNull<u8>, layout: Layout) {
    // SAFETY: the caller's promise.
    let freed = unsafe {
        behind_lock(|heap| heap.free_sized(block, layout)).unwrap_or_else(|| cached::free_sized(block, layout.size()))
    };
    freed.unwrap_or_else(|error| blame(Call::Free, block, error));
}

/// Makes a block hold `layout`'s size where it is, or places another that does; complains about what is no block.
///
/// # Safety
/// If a used block starts at `block`, nobody uses what it has above that size any more.
pub(crate) unsafe fn resize(block: NonNull<u8>, layout: Layout) -> Result<Resized, NotResized> {
    // SAFETY: the caller's promise.
    let resized = unsafe { if is_cached() { resize_cached(block, layout) } else { resize_behind_lock(block, layout) } };
    if let Err(NotResized::NotABlock) = resized {
        blame(Call::Reallocate, block, FreeError::NotABlock);
    }
    resized
}

/// Apart: what all programs run is short and lies together.
///
/// # Safety
/// As [`resize`].
#[inline(never)]
unsafe fn resize_behind_lock(block: NonNull<u8>, layout: Layout) -> Result<Resized, NotResized> {
    // SAFETY: the caller's promise.
    behind_lock(|heap| unsafe { heap.resize(block, layout) }).unwrap_or(Err(NotResized::NotABlock))
}

/// # Safety
/// As [`resize`].
unsafe fn resize_cached(block: NonNull<u8>, layout: Layout) -> Result<Resized, NotResized> {
    // SAFETY: the caller's promise.
    unsafe { cached::reallocate(block, layout.size()) }.map(Resized::Done).map_err(|error| match error {
        NotMoved::NotABlock => NotResized::NotABlock,
        NotMoved::OutOfMemory => NotResized::OutOfMemory,
    })
}

/// How many bytes the block at `block` has.
pub(crate) fn usable_size(block: NonNull<u8>) -> Option<usize> {
    behind_lock(|heap| heap.usable_size(block)).unwrap_or_else(|| cached::usable_size(block))
}

#[cold]
fn blame(call: Call, block: NonNull<u8>, error: FreeError) {
    with(|state| complain(state, call, block, error));
}
