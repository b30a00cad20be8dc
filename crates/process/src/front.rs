//! Dispatches to the heap: directly to the cached heap, which needs no lock, or through the lock to any other.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, Ordering};

use heapwright_cached::{self as cached, NotMoved};
use heapwright_heaps::FreeError;

use crate::complaint::{Call, complaint};
use crate::exact::Exact;
use crate::heap::{Heap, NotResized, Resized};
use crate::state::{begin, end, with, with_rarely};

/// The heap has not been created yet.
const UNKNOWN: u8 = 0;
const BEHIND_LOCK: u8 = 1;
const CACHED: u8 = 2;

static PATH: AtomicU8 = AtomicU8::new(UNKNOWN);

/// Stores the code path that leads to the heap.
pub(crate) fn open(heap: &Heap) {
    PATH.store(if matches!(heap, Heap::Cached) { CACHED } else { BEHIND_LOCK }, Ordering::Release);
}

#[inline]
fn is_cached() -> bool {
    match PATH.load(Ordering::Acquire) {
        UNKNOWN => {
            begin();
            PATH.load(Ordering::Acquire) == CACHED
        }
        way => way == CACHED,
    }
}

/// Runs `act` on the heap behind the lock; returns `None` if the process has the cached heap instead.
#[inline(always)]
fn behind_lock<R>(act: impl FnOnce(Exact<'_>) -> R) -> Option<R> {
    if is_cached() { None } else { with(|state| state.heap.exact().map(act)) }
}

/// Allocates a block for `layout`; returns `None` when there is no memory.
#[inline]
pub(crate) fn place(layout: Layout) -> Option<NonNull<u8>> {
    match behind_lock(|heap| heap.allocate(layout)) {
        Some(placed) => placed.ok(),
        None => cached::allocate_aligned(layout.size(), layout.align()).ok(),
    }
}

/// Allocates a zeroed block for `layout`; returns `None` when there is no memory.
#[inline]
pub(crate) fn place_zeroed(layout: Layout) -> Option<NonNull<u8>> {
    match behind_lock(|heap| heap.allocate_zeroed(layout)) {
        Some(placed) => placed.ok(),
        None => cached::allocate_zeroed(layout.size()).ok(),
    }
}

/// Frees a block, or reports the bad address.
///
/// # Safety
/// If a live block starts at `block`, the program does not use it any more.
#[inline(never)]
pub(crate) unsafe fn release(block: NonNull<u8>) {
    // SAFETY: if a live block starts at this address, the program does not use it any more, as this function requires.
    let freed = unsafe { behind_lock(|heap| heap.free(block)).unwrap_or_else(|| cached::free(block)) };
    freed.unwrap_or_else(|error| blame(Call::Free, block, error));
}

/// Frees a block after a check of its size against `layout`, or reports the bad address or size.
///
/// # Safety
/// If a live block starts at `block`, the program does not use it any more.
#[inline(never)]
pub(crate) unsafe fn release_sized(block: NonNull<u8>, layout: Layout) {
    // SAFETY: if a live block starts at this address, the program does not use it any more, as this function requires.
    let freed = unsafe {
        behind_lock(|heap| heap.free_sized(block, layout)).unwrap_or_else(|| cached::free_sized(block, layout))
    };
    freed.unwrap_or_else(|error| blame(Call::Free, block, error));
}

/// Reports the free of a block with a size or alignment that no block has.
pub(crate) fn refuse_size(block: NonNull<u8>) {
    blame(Call::Free, block, FreeError::WrongSize);
}

/// Resizes a block in place to the size of `layout`, or allocates another of that size; reports a bad address.
///
/// # Safety
/// If a live block starts at `block`, the program does not use its bytes above the new size any more.
pub(crate) unsafe fn resize(block: NonNull<u8>, layout: Layout) -> Result<Resized, NotResized> {
    // SAFETY: the program does not use the block's bytes above the new size, as this function requires.
    let resized = unsafe { if is_cached() { resize_cached(block, layout) } else { resize_behind_lock(block, layout) } };
    if let Err(NotResized::NotABlock) = resized {
        blame(Call::Reallocate, block, FreeError::NotABlock);
    }
    resized
}

/// Not inlined, which keeps the hot code small and contiguous.
///
/// # Safety
/// If a live block starts at `block`, the program does not use its bytes above the new size any more.
#[inline(never)]
unsafe fn resize_behind_lock(block: NonNull<u8>, layout: Layout) -> Result<Resized, NotResized> {
    // SAFETY: the program does not use the block's bytes above the new size, as this function requires.
    behind_lock(|heap| unsafe { heap.resize(block, layout) }).unwrap_or(Err(NotResized::NotABlock))
}

/// # Safety
/// If a live block starts at `block`, the program does not use its bytes above the new size any more.
unsafe fn resize_cached(block: NonNull<u8>, layout: Layout) -> Result<Resized, NotResized> {
    // SAFETY: the program does not use the block's bytes above the new size, as this function requires.
    unsafe { cached::reallocate(block, layout.size()) }.map(Resized::Done).map_err(|error| match error {
        NotMoved::NotABlock => NotResized::NotABlock,
        NotMoved::OutOfMemory => NotResized::OutOfMemory,
    })
}

/// Returns the number of bytes that the program may use in the block at `block`.
pub(crate) fn usable_size(block: NonNull<u8>) -> Option<usize> {
    behind_lock(|heap| heap.usable_size(block)).unwrap_or_else(|| cached::usable_size(block))
}

/// Prints one line about a bad address and aborts the process, or only counts it if the settings ask for that.
#[cold]
#[inline(never)]
fn blame(call: Call, block: NonNull<u8>, error: FreeError) {
    if let Some(line) = with_rarely(|state| complaint(state, call, block, error)) {
        end(line.bytes());
    }
}
