//! Allocation: the fast path from the thread cache, and the choice of the slow path.

use core::alloc::Layout;
use core::ptr::NonNull;

use crate::lifecycle::{adopted, heap_for_long_blocks, heap_to_allocate_in};
use crate::lookup::usable_size;
use crate::{counts, harden, long, startup, upkeep};
use heapwright_slabs::classes::{GRAIN, LARGEST, aligned_class_of, class_of, size_of_class, size_of_request};
use heapwright_slabs::errors::OutOfMemory;
use heapwright_slabs::heap::Owned;
use heapwright_slabs::origin::Origin;
use heapwright_slabs::{mode, thread};

/// Returns a block of at least `size` bytes from the calling thread's cache: the fast path of `malloc`. `None` means
/// that [`allocate`] has to be called.
#[inline(always)]
#[must_use]
pub fn take(size: usize) -> Option<NonNull<u8>> {
    thread::heap().take(size)
}

/// Does the same as [`take`] in the hardened heap, whose blocks that does not return.
#[inline(always)]
#[must_use]
pub fn take_hardened(size: usize) -> Option<NonNull<u8>> {
    harden::take(size)
}

/// Does the same as [`take`]; the block is zero up to its usable size.
#[inline(always)]
#[must_use]
pub fn take_zeroed(size: usize) -> Option<NonNull<u8>> {
    let block = take(size)?;
    // SAFETY: the block is new, and as long as its class, which it has by its size alone.
    unsafe { block.write_bytes(0, size_of_request(size)) };
    Some(block)
}

/// Allocates a block of at least `size` bytes at a multiple of 16.
///
/// # Errors
/// [`OutOfMemory`].
#[inline(never)]
pub fn allocate(size: usize) -> Result<NonNull<u8>, OutOfMemory> {
    if size <= LARGEST
        && let Some(heap) = heap_to_allocate_in()
    {
        return allocate_in(heap, class_of(size), size, GRAIN);
    }
    allocate_without_class(layout(size, GRAIN)?)
}

/// Allocates a block of at least `size` bytes at a multiple of 16 that is zero up to its usable size. Pages that were
/// never used are known to be zero, and are not touched.
///
/// # Errors
/// [`OutOfMemory`].
pub fn allocate_zeroed(size: usize) -> Result<NonNull<u8>, OutOfMemory> {
    take_zeroed(size).map_or_else(|| allocate_zeroed_slowly(size), Ok)
}

#[inline(never)]
fn allocate_zeroed_slowly(size: usize) -> Result<NonNull<u8>, OutOfMemory> {
    if let Some(block) = harden::take_zeroed(size) {
        return Ok(block);
    }
    startup::ready().ok_or(OutOfMemory)?;
    let layout = layout(size, GRAIN)?;
    if mode::is_hardened() {
        return harden::allocate_zeroed(layout, adopted());
    }
    if size <= LARGEST
        && let Some(heap) = heap_to_allocate_in()
    {
        let block = allocate_in(heap, class_of(size), size, GRAIN)?;
        // SAFETY: the block is new, and that long.
        unsafe { block.write_bytes(0, usable_size(block).unwrap_or(size)) };
        return Ok(block);
    }
    allocate_long(layout, long::allocate_zeroed)
}

/// Allocates a block of at least `size` bytes at a multiple of `align`, a power of two.
///
/// # Errors
/// [`OutOfMemory`].
pub fn allocate_aligned(size: usize, align: usize) -> Result<NonNull<u8>, OutOfMemory> {
    if align <= GRAIN {
        return take(size).map_or_else(|| allocate(size), Ok);
    }
    if let Some(class) = aligned_class_of(size, align)
        && let Some(heap) = heap_to_allocate_in()
    {
        return allocate_in(heap, class, size, align);
    }
    allocate_without_class(layout(size, align)?)
}

/// Allocates a block in the place of a block of `before` bytes that cannot grow where it is.
#[inline(never)]
pub(crate) fn allocate_to_grow(before: usize, size: usize) -> Result<NonNull<u8>, OutOfMemory> {
    if mode::is_hardened() && size > before {
        return harden::allocate_to_grow(layout(size, GRAIN)?, adopted());
    }
    if size <= LARGEST || mode::is_hardened() {
        return allocate(size);
    }
    allocate_long(layout(size, GRAIN)?, |layout, heap| long::allocate_to_grow(before, layout, heap))
}

/// Allocates a block of a class, whose length is a multiple of `align`, in the calling thread's heap.
#[inline]
fn allocate_in(heap: Owned, class: usize, size: usize, align: usize) -> Result<NonNull<u8>, OutOfMemory> {
    let block = match heap.allocate_aligned(class, align) {
        Some(block) => block,
        None => allocate_relieved(heap, class, align)?,
    };
    upkeep::count(heap);
    if counts::are_kept()
        && let Some(origin) = Origin::of(block)
    {
        counts::record_allocation(Some(origin.class), size, size_of_class(origin.class));
    }
    Ok(block)
}

/// Allocates a block of a class after the system has refused memory, where free memory can be reused or given back.
#[cold]
#[inline(never)]
fn allocate_relieved(heap: Owned, class: usize, align: usize) -> Result<NonNull<u8>, OutOfMemory> {
    if upkeep::relieve_refused() { heap.allocate_aligned(class, align).ok_or(OutOfMemory) } else { Err(OutOfMemory) }
}

/// Places a long block for the calling thread, by `place`.
fn allocate_long(
    layout: Layout,
    place: impl Fn(Layout, Option<Owned>) -> Result<NonNull<u8>, OutOfMemory>,
) -> Result<NonNull<u8>, OutOfMemory> {
    let heap = heap_for_long_blocks();
    let placed = place(layout, heap)
        .or_else(|refused| if upkeep::relieve_refused() { place(layout, heap) } else { Err(refused) });
    let coming = placed.as_ref().map_or(0, |&block| if long::is_apart(block) { layout.size() } else { 0 });
    upkeep::count_long(heap.or_else(|| thread::heap().owned()), coming);
    placed
}

fn layout(size: usize, align: usize) -> Result<Layout, OutOfMemory> {
    Layout::from_size_align(size, align.max(GRAIN)).map_err(|_| OutOfMemory)
}

/// Allocates a block in the hardened heap; or a block of pages, because it has no class or the thread has no heap.
#[cold]
#[inline(never)]
fn allocate_without_class(layout: Layout) -> Result<NonNull<u8>, OutOfMemory> {
    startup::ready().ok_or(OutOfMemory)?;
    if mode::is_hardened() {
        return harden::allocate(layout, adopted());
    }
    allocate_long(layout, long::allocate)
}
