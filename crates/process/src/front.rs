//! Dispatches to the heap: directly to the cached heap, which needs no lock, or through the lock to any other.

use core::alloc::Layout;
use core::ptr::NonNull;

use heapwright_cached::{self as cached, NotMoved};
use heapwright_heaps::FreeError;

use crate::complaint::{Call, complaint, complaint_without_heap};
use crate::exact::{Exact, NotResized, Resized};
use crate::heap::ALIGN;
use crate::route::{self, BEHIND_LOCK, CACHED, UNKNOWN};
use crate::state::{begin, end, with, with_rarely};

/// Returns the code path; [`UNKNOWN`] when there is no memory for a heap.
#[inline]
fn path() -> u8 {
    match route::known() {
        UNKNOWN => {
            begin();
            route::known()
        }
        path => path,
    }
}

/// The outcome of a call that was meant for the heap behind the lock.
enum Routed<R> {
    Done(R),
    /// The process has the cached heap instead.
    Cached,
    /// There is no memory for a heap, so that there is no block either.
    NoHeap,
}

/// Runs `act` on the heap behind the lock, if the process has that.
#[inline(always)]
fn behind_lock<R>(act: impl FnOnce(Exact<'_>) -> R) -> Routed<R> {
    match path() {
        CACHED => Routed::Cached,
        BEHIND_LOCK => match with(|state| state.heap.exact().map(act)).flatten() {
            Some(done) => Routed::Done(done),
            None => Routed::NoHeap,
        },
        _ => Routed::NoHeap,
    }
}

/// Allocates a block for `layout`; returns `None` when there is no memory.
#[inline]
pub(crate) fn place(layout: Layout) -> Option<NonNull<u8>> {
    match behind_lock(|heap| heap.allocate(layout)) {
        Routed::Done(placed) => placed.ok(),
        Routed::Cached => cached::allocate_aligned(layout.size(), layout.align().max(ALIGN)).ok(),
        Routed::NoHeap => None,
    }
}

/// Returns whether a request of 0 bytes gets no block, which is no failure.
pub(crate) fn denies_zero() -> bool {
    matches!(behind_lock(|heap| heap.denies_zero()), Routed::Done(true))
}

/// Allocates a zeroed block for `layout`; returns `None` when there is no memory.
#[inline]
pub(crate) fn place_zeroed(layout: Layout) -> Option<NonNull<u8>> {
    match behind_lock(|heap| heap.allocate_zeroed(layout)) {
        Routed::Done(placed) => placed.ok(),
        Routed::Cached => cached::allocate_zeroed(layout.size()).ok(),
        Routed::NoHeap => None,
    }
}

/// Frees a block, or reports the bad address.
///
/// # Safety
/// If a live block starts at `block`, the program does not use it any more.
#[inline(never)]
pub(crate) unsafe fn release(block: NonNull<u8>) {
    // SAFETY: if a live block starts at this address, the program does not use it any more, as this function requires.
    let freed = unsafe {
        match behind_lock(|heap| heap.free(block)) {
            Routed::Done(freed) => freed,
            Routed::Cached => cached::free(block),
            Routed::NoHeap => Err(FreeError::NotABlock),
        }
    };
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
        match behind_lock(|heap| heap.free_sized(block, layout)) {
            Routed::Done(freed) => freed,
            Routed::Cached => cached::free_sized(block, layout),
            Routed::NoHeap => Err(FreeError::NotABlock),
        }
    };
    freed.unwrap_or_else(|error| blame(Call::FreeSized(layout.size()), block, error));
}

/// Reports the free of a block with a size or alignment that no block has.
pub(crate) fn refuse_size(block: NonNull<u8>, size: usize) {
    blame(Call::FreeSized(size), block, FreeError::WrongSize);
}

/// Resizes a block in place to the size of `layout`, or allocates another of that size; reports a bad address.
///
/// # Safety
/// If a live block starts at `block`, the program does not use its bytes above the new size any more.
pub(crate) unsafe fn resize(block: NonNull<u8>, layout: Layout) -> Result<Resized, NotResized> {
    // SAFETY: the program does not use the block's bytes above the new size, as this function requires.
    let resized =
        unsafe { if path() == CACHED { resize_cached(block, layout) } else { resize_behind_lock(block, layout) } };
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
    match behind_lock(|heap| unsafe { heap.resize(block, layout) }) {
        Routed::Done(resized) => resized,
        Routed::Cached | Routed::NoHeap => Err(NotResized::NotABlock),
    }
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
    if path() == CACHED { cached::usable_size(block) } else { usable_size_behind_lock(block) }
}

/// Not inlined: programs that count their memory ask for the size of each block.
#[inline(never)]
fn usable_size_behind_lock(block: NonNull<u8>) -> Option<usize> {
    match behind_lock(|mut heap| heap.usable_size(block)) {
        Routed::Done(size) => size,
        Routed::Cached | Routed::NoHeap => None,
    }
}

/// Prints one line about a bad address and aborts the process, or only counts it if the settings ask for that.
#[cold]
#[inline(never)]
fn blame(call: Call, block: NonNull<u8>, error: FreeError) {
    let usable = if error == FreeError::WrongSize { usable_size(block) } else { None };
    let line = with_rarely(|state| complaint(state, call, block, usable, error))
        .unwrap_or_else(|| Some(complaint_without_heap(call, block, error)));
    if let Some(line) = line {
        end(line.bytes());
    }
}
