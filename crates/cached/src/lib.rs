//! The default malloc of a process: thread caches per size class, in front of slabs and long blocks in an arena of pages.
//!
//! A request of up to 32 KiB has a size class (`classes`). Each thread has a heap (`heap`) with a list of free blocks per
//! class. A call that takes from a list or adds to it touches one line of the heap, and the block. Lists are filled from
//! and emptied into slabs (`slab`): 64 KiB of blocks of one class, managed by the page, so that pages are not touched
//! before they are needed and can be purged while the rest of their slab is in use. Slab metadata is out of band and is
//! found by the address of a block.
//!
//! A slab belongs to one heap. Blocks that another thread frees are gathered and sent to the inbox of the owner, many at
//! a time (`inbox`). When the owner sleeps or has ended, other threads put them back into its slabs (`heap::reclaim`,
//! `owner_lock`). The heap of a thread that ends waits for the next thread, with its slabs.
//!
//! Slabs and blocks of up to 32 MiB (`long`) are placed by a first-fit engine over pages, behind one lock (`ground`);
//! tables that describe them grow with the pages (`tables`). Longer blocks have mappings of their own.
//!
//! From the bottom up: `classes`, `links`, `list`, `slab_list`, `slab`, `inbox`, `owner_lock`, `tables`, `ground`,
//! `heaps`, `heap`, `thread`, `long`, `census`, `places`, and this page. Beside them stands the hardened heap (`harden`),
//! over the same pages.
#![no_std]

#[cfg(test)]
extern crate std;

mod census;
mod classes;
mod counts;
mod damage;
mod global;
mod ground;
mod harden;
mod heap;
mod heaps;
mod inbox;
#[cfg(all(loom, test))]
mod interleavings;
mod links;
mod list;
mod long;
mod mode;
mod owner_lock;
#[cfg(not(all(loom, test)))]
mod places;
mod slab;
mod slab_list;
mod tables;
mod thread;
#[cfg(all(loom, test))]
#[path = "model.rs"]
mod world;
#[cfg(not(all(loom, test)))]
mod world;

use core::alloc::Layout;
use core::ptr::NonNull;

pub use census::{Census, ClassSlabs, census, census_of, heaps};
pub use classes::sizes;
pub use counts::{ClassCount, Totals, class_counts, keep_counts, totals};
pub use global::Cached;
pub use harden::{Measures, harden};
#[cfg(not(all(loom, test)))]
pub use heap::HeapGlance;
#[cfg(not(all(loom, test)))]
pub use places::{Places, places, write_state};
#[cfg(not(all(loom, test)))]
pub use slab::SlabGlance;

use heapwright_heaps::{BlockState, Counters, FreeError, HoleStats, PageReturns, ResizeError};
use heapwright_os::{ForkPass, Refused, page_size, resident};

use classes::{GRAIN, LARGEST, aligned_class_of, class_of, size_of_class, size_of_small};
use ground::GROUND;
use heap::{Entry, Heap, Owned};
use slab::{PAGE, SLAB, is_block};

/// There is no memory, or the request is longer than any object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;

/// Why a block holds what it held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotMoved {
    /// No block starts there.
    NotABlock,
    /// There is no memory.
    OutOfMemory,
}

/// Gets ready, if nobody has yet, and leaves it to the caller to call [`before_fork`] and the others. The first allocation gets
/// ready too, and sees to forks itself.
///
/// # Errors
/// [`Refused`] when there is no address space.
pub fn start() -> Result<(), Refused> {
    GROUND.lay()
}

/// A block of at least `size` bytes, if the calling thread has one at hand: this is what most calls of `malloc` come to. `None`
/// says nothing but that [`allocate`] is to be asked.
#[inline(always)]
#[must_use]
pub fn take(size: usize) -> Option<NonNull<u8>> {
    thread::heap().take(size)
}

/// As [`take`], for the longer blocks that have a class, when that returned nothing.
#[inline]
#[must_use]
pub fn take_medium(size: usize) -> Option<NonNull<u8>> {
    thread::heap().take_medium(size)
}

/// As [`take`], all zeros, as far as the program may use the block.
#[inline(always)]
#[must_use]
pub fn take_zeroed(size: usize) -> Option<NonNull<u8>> {
    let block = take(size)?;
    // SAFETY: the block is new, and as long as its class, which a small block has by its size alone.
    unsafe { block.write_bytes(0, size_of_small(size)) };
    Some(block)
}

/// Frees a block, if it is a short one of the calling thread's heap: this is what most calls of `free` come to. `false` says
/// nothing but that [`free`] is to be asked.
///
/// # Safety
/// As [`free`].
#[inline(always)]
#[must_use]
pub unsafe fn give(block: *mut u8) -> bool {
    // SAFETY: the caller's promise.
    unsafe { thread::heap().give(block, 0) }
}

/// As [`give`], for a block that was asked for with `size` bytes.
///
/// # Safety
/// As [`free`].
#[inline(always)]
#[must_use]
pub unsafe fn give_sized(block: *mut u8, size: usize) -> bool {
    // SAFETY: the caller's promise.
    unsafe { thread::heap().give(block, size) }
}

/// As [`give`], for blocks of every length, when that returned `false`.
///
/// # Safety
/// As [`free`].
#[inline]
#[must_use]
pub unsafe fn give_any(block: *mut u8) -> bool {
    // SAFETY: the caller's promise.
    unsafe { thread::heap().give_any(block) }
}

/// A block of at least `size` bytes at a multiple of 16.
///
/// # Errors
/// [`OutOfMemory`].
#[inline(never)]
pub fn allocate(size: usize) -> Result<NonNull<u8>, OutOfMemory> {
    if size <= LARGEST
        && let Some(heap) = thread::heap_of_its_own()
    {
        return allocate_in(heap, class_of(size), size);
    }
    allocate_otherwise(layout(size, GRAIN)?)
}

/// As [`allocate`], all zeros, as far as the program may use the block. What was never used before is known to be zero and not
/// touched.
///
/// # Errors
/// [`OutOfMemory`].
pub fn allocate_zeroed(size: usize) -> Result<NonNull<u8>, OutOfMemory> {
    take_zeroed(size).map_or_else(|| allocate_zeroed_otherwise(size), Ok)
}

#[inline(never)]
fn allocate_zeroed_otherwise(size: usize) -> Result<NonNull<u8>, OutOfMemory> {
    thread::ready().ok_or(OutOfMemory)?;
    let layout = layout(size, GRAIN)?;
    if harden::is_on() {
        return harden::allocate_zeroed(layout);
    }
    if size <= LARGEST
        && let Some(heap) = thread::heap_of_its_own()
    {
        let block = allocate_in(heap, class_of(size), size)?;
        // SAFETY: the block is new, and that long.
        unsafe { block.write_bytes(0, usable_size(block).unwrap_or(size)) };
        return Ok(block);
    }
    long::allocate_zeroed(layout)
}

/// As [`allocate`], at a multiple of `align`, a power of two.
///
/// # Errors
/// [`OutOfMemory`].
pub fn allocate_aligned(size: usize, align: usize) -> Result<NonNull<u8>, OutOfMemory> {
    if align <= GRAIN {
        return take(size).map_or_else(|| allocate(size), Ok);
    }
    if let Some(class) = aligned_class_of(size, align)
        && let Some(heap) = thread::heap_of_its_own()
    {
        return allocate_in(heap, class, size);
    }
    allocate_otherwise(layout(size, align)?)
}

/// A block of a class from the calling thread's heap.
#[inline]
fn allocate_in(heap: Owned, class: usize, size: usize) -> Result<NonNull<u8>, OutOfMemory> {
    let block = heap.allocate(class).ok_or(OutOfMemory)?;
    if counts::are_kept()
        && let Some((entry, usable)) = slab_of(block)
    {
        counts::see_allocated(Some(entry.class()), size, usable);
    }
    Ok(block)
}

fn layout(size: usize, align: usize) -> Result<Layout, OutOfMemory> {
    Layout::from_size_align(size, align.max(GRAIN)).map_err(|_| OutOfMemory)
}

/// A block of pages, where it has no class or the thread no heap; or one of the hardened heap.
#[cold]
#[inline(never)]
fn allocate_otherwise(layout: Layout) -> Result<NonNull<u8>, OutOfMemory> {
    thread::ready().ok_or(OutOfMemory)?;
    if harden::is_on() {
        return harden::allocate(layout);
    }
    long::allocate(layout)
}

/// Frees a block.
///
/// # Errors
/// [`FreeError`]; nothing has changed then. A pointer into a block, or to one that is free, is not always recognised.
///
/// # Safety
/// If `block` is a block, nobody uses it any more.
#[inline(never)]
pub unsafe fn free(block: NonNull<u8>) -> Result<(), FreeError> {
    if slab_of(block).is_none() {
        if harden::is_on() {
            return harden::free(block);
        }
        // SAFETY: as this function requires.
        return unsafe { long::free(block) };
    }
    let heap = thread::heap_of_its_own();
    // Only now, for slabs of a heap that is adopted may go to other heaps until then.
    let (entry, size) = slab_of(block).ok_or(FreeError::NotABlock)?;
    // SAFETY: the caller's promise.
    let is_freed = unsafe {
        match heap {
            Some(heap) if entry.owner() == heap.owner() => heap.give_any(block.as_ptr()),
            Some(heap) => heap.send(block, entry),
            None => {
                // The thread has no heap to gather in.
                heap::send_at_once(block, entry);
                true
            }
        }
    };
    if !is_freed {
        return Err(FreeError::AlreadyFree);
    }
    if counts::are_kept() {
        counts::see_freed(Some(entry.class()), size);
    }
    Ok(())
}

/// The entry of the slab that a block lies in, and the block's length; `None` when it lies in none, or is not the start of one.
fn slab_of(block: NonNull<u8>) -> Option<(Entry, usize)> {
    let number = GROUND.number_of(block.addr().get())?;
    let entry = GROUND.entry(number);
    if entry == Entry::NONE {
        return None;
    }
    is_block(block.addr().get() % SLAB, entry.class()).then(|| (entry, size_of_class(entry.class())))
}

/// How many bytes the block at `block` has; `None` when none starts there.
#[must_use]
pub fn usable_size(block: NonNull<u8>) -> Option<usize> {
    match slab_of(block) {
        Some((_, size)) => Some(size),
        None if harden::is_on() => harden::usable_size(block),
        None => long::usable_size(block),
    }
}

/// Frees a block that was allocated for `layout`, or had its size after a resize.
///
/// # Errors
/// As [`free`], and [`FreeError::WrongSize`] when the block is shorter, or, in the hardened heap, longer than those that are
/// allocated for `layout`.
///
/// # Safety
/// As [`free`].
pub unsafe fn free_sized(block: NonNull<u8>, layout: Layout) -> Result<(), FreeError> {
    let usable = usable_size(block).ok_or(FreeError::NotABlock)?;
    if usable < layout.size() || harden::is_on() && !harden::is_length_for(usable, layout) {
        return Err(FreeError::WrongSize);
    }
    // SAFETY: if it is a block, it is not used any more, as this function requires.
    unsafe { if give_any(block.as_ptr()) { Ok(()) } else { free(block) } }
}

/// Makes a block hold `size` bytes where it is, if it can and little is lost by it.
///
/// # Errors
/// [`ResizeError`]; nothing has changed then.
///
/// # Safety
/// If `block` is a block, nobody uses what it has above `size` bytes any more.
pub unsafe fn resize_in_place(block: NonNull<u8>, size: usize) -> Result<(), ResizeError> {
    if let Some((_, usable)) = slab_of(block) {
        return if stays(usable, size) { Ok(()) } else { Err(ResizeError::NoRoom) };
    }
    if harden::is_on() {
        return harden::resize_in_place(block, size);
    }
    // SAFETY: as this function requires.
    unsafe { long::resize_in_place(block, size) }
}

/// Makes a block hold `size` bytes where it is, or moves what is in it to another one that does.
///
/// # Errors
/// [`NotMoved`]; nothing has changed then.
///
/// # Safety
/// If `block` is a block, nobody uses what it has above `size` bytes any more nor, if another one is returned, the block itself.
pub unsafe fn reallocate(block: NonNull<u8>, size: usize) -> Result<NonNull<u8>, NotMoved> {
    let usable = match slab_of(block) {
        Some((_, usable)) if stays(usable, size) => return Ok(block),
        Some((_, usable)) => usable,
        // SAFETY: the caller's promise.
        None => match unsafe { resize_in_place(block, size) } {
            Ok(()) => return Ok(block),
            Err(ResizeError::NotABlock) => return Err(NotMoved::NotABlock),
            Err(ResizeError::NoRoom) if harden::is_on() => usable_size(block).ok_or(NotMoved::NotABlock)?,
            // SAFETY: the caller's promise.
            Err(ResizeError::NoRoom) => match unsafe { long::remap_apart(block, size) }? {
                Some(moved) => return Ok(moved),
                None => long::usable_size(block).ok_or(NotMoved::NotABlock)?,
            },
        },
    };
    let new = take(size).or_else(|| take_medium(size)).map_or_else(|| allocate_to_grow(usable, size), Ok);
    let new = new.map_err(|OutOfMemory| NotMoved::OutOfMemory)?;
    // SAFETY: both blocks are used, thus apart, and at least that long; the old one is given up.
    unsafe {
        new.copy_from_nonoverlapping(block, usable.min(size));
        if !give_any(block.as_ptr()) {
            free(block).map_err(|_| NotMoved::NotABlock)?;
        }
    }
    Ok(new)
}

/// As [`allocate`], in the place of a block of `before` bytes that cannot grow where it is.
fn allocate_to_grow(before: usize, size: usize) -> Result<NonNull<u8>, OutOfMemory> {
    if size <= LARGEST || harden::is_on() { allocate(size) } else { long::allocate_to_grow(before, size) }
}

/// Whether a block of a class, `usable` bytes long, is to hold `size` bytes: one of which less than half is needed moves to a
/// shorter one, unless nothing much is saved.
fn stays(usable: usize, size: usize) -> bool {
    /// A cache line: it takes a page of its own class to save a part of it.
    const LITTLE: usize = 64;
    size <= usable && (size > usable / 2 || usable <= LITTLE)
}

/// Gives the memory back to the system that the calling thread's heap, the slabs of all other heaps and the pages keep for
/// nothing; returns how many bytes of the heap are not in memory any more. What lies in the lists of other running threads
/// stays there.
pub fn trim() -> usize {
    // Looked at rather than counted: what is given back may not be in memory, and what is put away may give back by itself.
    let before = pages_in_memory();
    if harden::is_on() {
        harden::trim();
    } else {
        // What came for a slab that has gone to another heap is sent there in the first round, and put back in the second.
        trim_heaps();
        trim_heaps();
        if let Some(mut ground) = GROUND.shared() {
            ground.pages.trim();
        }
    }
    before.saturating_sub(pages_in_memory())
}

/// How many bytes of the heap are in memory; 0 where the system does not tell.
fn pages_in_memory() -> usize {
    let Some((start, length)) = GROUND.shared().map(|ground| (ground.pages.base(), ground.pages.heap_size())) else {
        return 0;
    };
    resident(start, length.next_multiple_of(page_size())).unwrap_or(0)
}

/// Trims the calling thread's heap, and of all others what no thread is at work on.
fn trim_heaps() {
    let own = thread::heap_of_its_own();
    if let Some(own) = own {
        long::release_kept(own);
        own.trim();
    }
    while let Some(orphan) = GROUND.shared().and_then(|mut ground| ground.heaps.orphan()) {
        long::release_kept(orphan);
        orphan.put_away();
        thread::abandon(orphan);
    }
    let Some(all) = GROUND.shared().map(|ground| ground.heaps.all()) else { return };
    all.filter(|heap| own.is_none_or(|own| own.owner() != heap.owner())).for_each(Heap::trim_as_visitor);
}

/// The pages in figures: slabs and longer blocks are its blocks.
#[must_use]
pub fn page_counters() -> Option<Counters> {
    GROUND.shared()?.pages.counters()
}

/// The holes between slabs and longer blocks.
#[must_use]
pub fn page_holes() -> Option<HoleStats> {
    Some(GROUND.shared()?.pages.holes())
}

/// Tells of the length of each hole between slabs and longer blocks, in address order.
pub fn each_page_hole(mut see: impl FnMut(usize)) {
    if let Some(ground) = GROUND.shared() {
        ground.pages.blocks().filter(|block| block.state == BlockState::Free).for_each(|hole| see(hole.size));
    }
}

/// What was given back to the system: bytes from holes and from slabs, all else of holes. What may not have been in memory
/// counts too.
#[must_use]
pub fn page_returns() -> Option<PageReturns> {
    let holes = GROUND.shared()?.pages.returns();
    Some(PageReturns { bytes: holes.bytes + GROUND.returned() as u64, ..holes })
}

/// Takes all locks for a fork, or what else `pass` says, so that no other thread is at work on what all share. May be
/// called when they are held.
pub fn before_fork(pass: ForkPass<'_>) {
    harden::hold(pass);
    thread::hold_heap(pass);
    GROUND.hold(pass);
    if !matches!(pass, ForkPass::Look(_)) {
        thread::hold_other_heaps();
    }
}

/// Frees these locks, in the parent or in the child.
///
/// # Safety
/// This thread, or the one that it is a copy of, called [`before_fork`].
pub unsafe fn after_fork() {
    // SAFETY: this thread, or the one that it is a copy of, called `before_fork`, as this function requires.
    unsafe {
        thread::let_go_of_heaps();
        GROUND.let_go();
        harden::let_go();
    }
}

/// Makes the heap that of a fork's child, before [`after_fork`]. The lists of the parent's other threads stay as they
/// were, in whatever state, and are not used again; their blocks can be used and freed. The slabs of these threads' heaps
/// are used again, unless a thread was at work on them; in that case, and for blocks that waited for their owner, memory
/// is lost in the child.
///
/// # Safety
/// This thread is the only one of a child.
pub unsafe fn after_fork_in_child() {
    thread::leave_visited_heap();
    GROUND.begin_child();
}

const _: () = assert!(SLAB.is_multiple_of(PAGE));
