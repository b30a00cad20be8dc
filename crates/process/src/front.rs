//! The way to the heap: directly to the one that needs no lock, or through the lock to any other.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, Ordering};

use heapwright_cached as cached;
use heapwright_heaps::{FreeError, ResizeError};

use crate::complaint::{Call, complain};
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

/// A block for `layout`; `None` when there is no memory.
#[inline]
pub(crate) fn place(layout: Layout) -> Option<NonNull<u8>> {
    if is_cached() {
        return cached::allocate_aligned(layout.size(), layout.align()).ok();
    }
    with(|state| state.heap.allocate(layout)).ok()
}

/// As [`place`], all zeros.
#[inline]
pub(crate) fn place_zeroed(layout: Layout) -> Option<NonNull<u8>> {
    if is_cached() {
        return cached::allocate_zeroed(layout.size()).ok();
    }
    with(|state| state.heap.allocate_zeroed(layout)).ok()
}

/// Frees a block, or complains.
///
/// # Safety
/// If a used block starts at `block`, nobody uses it any more.
#[inline]
pub(crate) unsafe fn release(block: NonNull<u8>) {
    // SAFETY: the caller's promise.
    unsafe {
        if is_cached() {
            return cached::free(block).unwrap_or_else(|error| blame(Call::Free, block, error));
        }
        with(|state| {
            if let Err(error) = state.heap.free(block) {
                complain(state, Call::Free, block, error);
            }
        });
    }
}

/// Frees a block whose length is held against what the caller says, or complains.
///
/// # Safety
/// As [`release`].
#[inline]
pub(crate) unsafe fn release_sized(block: NonNull<u8>, layout: Layout) {
    // SAFETY: the caller's promise.
    unsafe {
        if is_cached() {
            return cached::free_sized(block, layout.size()).unwrap_or_else(|error| blame(Call::Free, block, error));
        }
        with(|state| {
            if let Err(error) = state.heap.free_sized(block, layout) {
                complain(state, Call::Free, block, error);
            }
        });
    }
}

/// Makes a block hold `layout`'s size where it is, or places another that does; complains about what is no block.
///
/// # Safety
/// If a used block starts at `block`, nobody uses what it has above that size any more.
pub(crate) unsafe fn resize(block: NonNull<u8>, layout: Layout) -> Result<Resized, NotResized> {
    // SAFETY: the caller's promise.
    let resized = unsafe {
        if is_cached() { resize_cached(block, layout) } else { with(|state| state.heap.resize(block, layout)) }
    };
    if let Err(NotResized::NotABlock) = resized {
        blame(Call::Reallocate, block, FreeError::NotABlock);
    }
    resized
}

/// # Safety
/// As [`resize`].
unsafe fn resize_cached(block: NonNull<u8>, layout: Layout) -> Result<Resized, NotResized> {
    // SAFETY: the caller's promise.
    match unsafe { cached::resize_in_place(block, layout.size()) } {
        Ok(()) => Ok(Resized::Done(block)),
        Err(ResizeError::NotABlock) => Err(NotResized::NotABlock),
        Err(ResizeError::NoRoom) => {
            let usable = cached::usable_size(block).ok_or(NotResized::NotABlock)?;
            let new = place(layout).ok_or(NotResized::OutOfMemory)?;
            Ok(Resized::Elsewhere(new, usable.min(layout.size())))
        }
    }
}

/// How many bytes the block at `block` has.
pub(crate) fn usable_size(block: NonNull<u8>) -> Option<usize> {
    if is_cached() { cached::usable_size(block) } else { with(|state| state.heap.usable_size(block)) }
}

#[cold]
fn blame(call: Call, block: NonNull<u8>, error: FreeError) {
    with(|state| complain(state, call, block, error));
}
