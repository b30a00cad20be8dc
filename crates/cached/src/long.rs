//! Long blocks: those above the longest class, and those of threads without a heap.
//!
//! Up to [`LONGEST_PLACED`] bytes the page heap places them, between the slabs, and resizes them in place where there
//! is room. The mark of each, in the side table, contains its length and whether it is live: `free` and
//! `malloc_usable_size` take no lock. In a process with several threads each has a cache of freed ones (`long_cache`),
//! so that pairs of requests and frees take no lock either.
//!
//! Longer blocks, and those of more than [`LONGEST_COPIED`] bytes that cannot grow where they are, have mappings of
//! their own, which the system moves when they are resized. If it refuses one, the page heap places the block. Their
//! table is behind the arena's lock. No system call for them is made under that lock, except to grow the table.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

use heapwright_heaps::{Block, BlockState, FreeError, Mapping, ResizeError};
use heapwright_os::{MemoryLimit, clear, map, map_aligned, page_size, purge, remap, round_to_pages, unmap};

use crate::counts;
use heapwright_slabs::arena::{ARENA, ArenaGuard};
use heapwright_slabs::classes::{LARGEST, PAGE};
use heapwright_slabs::entry::Entry;
use heapwright_slabs::errors::{NotMoved, OutOfMemory};
use heapwright_slabs::heap::Owned;
use heapwright_slabs::long_cache::{Evicted, LongCache};
use heapwright_slabs::scarcity::is_scarce;

/// The longest blocks that the page heap places.
const LONGEST_PLACED: usize = 32 << 20;

/// The longest alignment of blocks that the page heap places: more than that of huge pages, which programs ask for.
const MOST_ALIGNED: usize = 4 << 20;

/// The same in a process with a limit on addresses or data: what lies between such blocks counts, used or not.
const MOST_ALIGNED_IN_LIMITS: usize = 1 << 20;

/// A block that is longer than this and has to be moved to grow gets a mapping of its own.
const LONGEST_COPIED: usize = 512 << 10;

/// A block that is moved to grow by less than an eighth is likely to grow again: it gets room for an eighth more, of
/// which nothing is in memory until the program writes to it. Otherwise each page that is added would copy the block.
const ROOM: usize = 8;

/// A mapping that is resized to less than this becomes a placed block.
const SHORTEST_MAPPED: usize = 128 << 10;

/// A new block.
struct Placed {
    block: NonNull<u8>,
    length: usize,
    /// The number of bytes at the block's start that may not be zero.
    dirty: usize,
}

/// Allocates a block, possibly from the cache of `heap`, and counts it.
pub(crate) fn allocate(layout: Layout, heap: Option<Owned>) -> Result<NonNull<u8>, OutOfMemory> {
    let placed = place(layout, heap)?;
    count(layout, &placed);
    Ok(placed.block)
}

/// As [`allocate`]; the block is zero up to its usable size.
pub(crate) fn allocate_zeroed(layout: Layout, heap: Option<Owned>) -> Result<NonNull<u8>, OutOfMemory> {
    let placed = place(layout, heap)?;
    // SAFETY: the block is new.
    unsafe { clear(placed.block, placed.dirty) };
    count(layout, &placed);
    Ok(placed.block)
}

fn count(layout: Layout, placed: &Placed) {
    if counts::are_kept() {
        counts::record_allocation(None, layout.size(), placed.length);
    }
}

/// Whether blocks of an alignment would lie too far apart in the page heap.
fn is_far_apart(align: usize) -> bool {
    align > MOST_ALIGNED || align > MOST_ALIGNED_IN_LIMITS && MemoryLimit::of_this_process() != MemoryLimit::Elsewhere
}

#[inline(never)]
fn place(layout: Layout, heap: Option<Owned>) -> Result<Placed, OutOfMemory> {
    if is_far_apart(layout.align()) {
        return map_apart(layout);
    }
    if layout.size() > LONGEST_PLACED {
        // Under a limit on addresses, the only ones that are left may be those of the page heap.
        return map_apart(layout).or_else(|OutOfMemory| place_in_arena(layout));
    }
    if let Some((block, length)) = take_cached(layout, heap) {
        return Ok(Placed { block, length, dirty: length });
    }
    if let Some(mut heap) = heap
        && ARENA.is_locked()
    {
        heap.long_cache().widen(layout.size());
    }
    place_in_arena(layout).or_else(|OutOfMemory| map_apart(layout))
}

fn place_in_arena(layout: Layout) -> Result<Placed, OutOfMemory> {
    ARENA.lock().ok_or(OutOfMemory).and_then(|mut arena| place_among_slabs(&mut arena, layout))
}

fn place_among_slabs(arena: &mut ArenaGuard, layout: Layout) -> Result<Placed, OutOfMemory> {
    let untouched = arena.pages.untouched_from();
    let block = arena.place(layout)?;
    let length = arena.pages.usable_size(block).ok_or(OutOfMemory)?;
    let offset = block.addr().get() - ARENA.base().addr();
    Mark::of(block).ok_or(OutOfMemory)?.set(length);
    Ok(Placed { block, length, dirty: untouched.saturating_sub(offset).min(length) })
}

/// Allocates a block in a mapping of its own.
fn map_apart(layout: Layout) -> Result<Placed, OutOfMemory> {
    let length = round_to_pages(layout.size()).ok_or(OutOfMemory)?;
    let mapped = if layout.align() <= page_size() { map(length) } else { map_aligned(length, layout.align()) };
    let block = mapped.map_err(|_| OutOfMemory)?;
    let has_room = ARENA.lock().is_some_and(|mut arena| {
        let has_room = arena.mappings.make_room().is_ok();
        if has_room {
            arena.mappings.insert(Mapping { address: block.addr().get(), length });
            arena.observe_taken();
        }
        has_room
    });
    if has_room {
        return Ok(Placed { block, length, dirty: 0 });
    }
    // SAFETY: the mapping is new, and its address has not been returned.
    let _ = unsafe { unmap(block, length) };
    Err(OutOfMemory)
}

/// Frees a long block.
///
/// # Errors
/// [`FreeError`]; nothing has changed then.
///
/// # Safety
/// If `block` is a block, it is not used any more.
#[inline(never)]
pub(crate) unsafe fn free(block: NonNull<u8>, heap: Option<Owned>) -> Result<(), FreeError> {
    let length = match Mark::of(block) {
        Some(mark) => {
            let length = mark.clear_live()?;
            cache_or_release(block, length, heap);
            length
        }
        // SAFETY: as this function requires.
        None => unsafe { unmap_apart(block) }?,
    };
    if counts::are_kept() {
        counts::record_free(None, length);
    }
    Ok(())
}

/// # Safety
/// As [`free`].
#[inline(never)]
unsafe fn unmap_apart(block: NonNull<u8>) -> Result<usize, FreeError> {
    let mut arena = ARENA.lock().ok_or(FreeError::NotABlock)?;
    let length = arena.mappings.remove(block.addr().get()).ok_or(FreeError::NotABlock)?;
    drop(arena);
    // SAFETY: the mapping was this heap's, and it is not used any more.
    unsafe {
        if unmap(block, length).is_err() {
            // There are too many mappings to split one. Its addresses leak, its memory does not.
            let _ = purge(block, length);
        }
    }
    Ok(length)
}

/// Frees blocks that are not used in the page heap.
#[inline(never)]
fn release(blocks: &Evicted) {
    if blocks.is_empty() {
        return;
    }
    let Some(mut arena) = ARENA.lock() else { return };
    blocks.each().for_each(|block| remove(&mut arena, block));
}

/// As [`release`], for one block.
#[inline(never)]
fn release_one(block: NonNull<u8>) {
    if let Some(mut arena) = ARENA.lock() {
        remove(&mut arena, block);
    }
}

#[inline(always)]
fn remove(arena: &mut ArenaGuard, block: NonNull<u8>) {
    if let Some(mark) = Mark::of(block) {
        mark.erase();
    }
    // SAFETY: the block is not used.
    let _ = unsafe { arena.remove(block) };
}

fn take_cached(layout: Layout, heap: Option<Owned>) -> Option<(NonNull<u8>, usize)> {
    let (block, length) = heap?.long_cache().take(layout)?;
    Mark::of(block)?.set(length);
    Some((block, length))
}

/// Adds a freed block to the cache of its thread's heap, or frees it in the page heap.
fn cache_or_release(block: NonNull<u8>, length: usize, heap: Option<Owned>) {
    match heap.filter(|_| length <= LongCache::LONGEST) {
        Some(mut heap) => release(&heap.long_cache().add(block, length)),
        None => release_one(block),
    }
}

/// Flushes the cache of long blocks of a heap.
pub(crate) fn flush_cache(mut heap: Owned) {
    release(&heap.long_cache().take_all());
}

/// Flushes the cache of long blocks of a heap if none was taken from it since the last call.
pub(crate) fn flush_unused(mut heap: Owned) {
    release(&heap.long_cache().take_unused());
}

/// Returns the usable size of a long block; `None` when none starts there.
#[inline(never)]
pub(crate) fn usable_size(block: NonNull<u8>) -> Option<usize> {
    match Mark::of(block) {
        Some(mark) => mark.live_length(),
        None => ARENA.lock()?.mappings.get(block.addr().get()),
    }
}

/// Resizes a long block where it is, if that is possible and little is lost by it.
///
/// # Errors
/// [`ResizeError`]; nothing has changed then.
///
/// # Safety
/// If `block` is a block, its bytes above `size` are not used any more.
pub(crate) unsafe fn resize_in_place(block: NonNull<u8>, size: usize) -> Result<(), ResizeError> {
    let Some(mark) = Mark::of(block) else {
        let length = usable_size(block).ok_or(ResizeError::NotABlock)?;
        return if size <= length && size > length / 2 { Ok(()) } else { Err(ResizeError::NoRoom) };
    };
    let before = mark.live_length().ok_or(ResizeError::NotABlock)?;
    if size <= LARGEST {
        return Err(ResizeError::NoRoom);
    }
    if size <= before && (before - size < PAGE || mark.has_room() && size > before - before / ROOM) {
        return Ok(());
    }
    let mut arena = ARENA.lock().ok_or(ResizeError::NotABlock)?;
    // SAFETY: as this function requires.
    unsafe { arena.resize(block, before, size) }?;
    let after = arena.pages.usable_size(block).unwrap_or(before);
    mark.set(after);
    drop(arena);
    if counts::are_kept() {
        counts::record_resize(before, after);
    }
    Ok(())
}

/// Makes a long block that cannot be resized in place hold `size` bytes elsewhere, without a copy; returns it, and by
/// how many bytes it is longer. `None` when it has to be copied to a block from [`allocate_to_grow`].
///
/// # Errors
/// [`NotMoved`]; nothing has changed then.
///
/// # Safety
/// As [`resize_in_place`]; if another block is returned, the old one is not used any more.
pub(crate) unsafe fn remap_apart(block: NonNull<u8>, size: usize) -> Result<Option<(NonNull<u8>, usize)>, NotMoved> {
    if Mark::of(block).is_some() || size < SHORTEST_MAPPED {
        return Ok(None);
    }
    let after = round_to_pages(size).ok_or(NotMoved::OutOfMemory)?;
    let address = block.addr().get();
    let taken = ARENA.lock().and_then(|mut arena| arena.mappings.take_out(address));
    let before = taken.ok_or(NotMoved::NotABlock)?;
    // SAFETY: the mapping is this heap's. It is not in the table, therefore no other thread resizes or frees it.
    let moved = unsafe { remap(block, before, after) };
    let mapping = match moved {
        Ok(moved) => Mapping { address: moved.addr().get(), length: after },
        Err(_) => Mapping { address, length: before },
    };
    if let Some(mut arena) = ARENA.lock() {
        arena.mappings.put_back(mapping);
        arena.observe_taken();
    }
    // A mapping that the system does not move, for example because the program has protected parts of it, is copied.
    let Ok(moved) = moved else { return Ok(None) };
    if counts::are_kept() {
        counts::record_resize(before, after);
    }
    Ok(Some((moved, after.saturating_sub(before))))
}

/// Allocates a block in the place of one of `before` bytes that cannot grow where it is. A long one gets a mapping, so
/// that it is not copied when it grows again; if the system refuses that, any place does.
pub(crate) fn allocate_to_grow(before: usize, layout: Layout, heap: Option<Owned>) -> Result<NonNull<u8>, OutOfMemory> {
    let placed = match place_with_foresight(before, layout, heap) {
        Some(placed) => placed,
        None => place(layout, heap)?,
    };
    count(layout, &placed);
    Ok(placed.block)
}

/// Places a block so that it can grow again without a copy; `None` where that is not to be expected, or not possible.
fn place_with_foresight(before: usize, layout: Layout, heap: Option<Owned>) -> Option<Placed> {
    let growth = layout.size().checked_sub(before).filter(|&growth| growth != 0)?;
    if before > LONGEST_COPIED {
        map_apart(layout).ok()
    } else if growth < before / ROOM && !is_scarce() {
        place_with_room(layout, heap).ok()
    } else {
        None
    }
}

fn place_with_room(layout: Layout, heap: Option<Owned>) -> Result<Placed, OutOfMemory> {
    let longer = Layout::from_size_align(layout.size() + layout.size() / ROOM, layout.align());
    let placed = place(longer.map_err(|_| OutOfMemory)?, heap)?;
    if let Some(mark) = Mark::of(placed.block) {
        mark.set_with_room(placed.length);
    }
    Ok(placed)
}

/// Returns the number of freed blocks in the caches of all threads, and their bytes. Takes time in proportion to the
/// number of slabs and long blocks.
pub(crate) fn in_caches(arena: &ArenaGuard) -> (usize, usize) {
    let is_used = |block: &Block| block.state == BlockState::Used;
    let length = |block: Block| {
        let start = NonNull::new(ARENA.base().wrapping_add(block.offset))?;
        // The words of slabs are their links.
        let is_long = ARENA.entry(ARENA.number_of(start.addr().get())?) == Entry::NONE;
        Mark::of(start).filter(|_| is_long)?.cached_length()
    };
    let lengths = arena.pages.blocks().filter(is_used).filter_map(length);
    lengths.fold((0, 0), |(blocks, bytes), length| (blocks + 1, bytes + length))
}

/// Returns whether a block has a mapping of its own.
pub(crate) fn is_apart(block: NonNull<u8>) -> bool {
    Mark::of(block).is_none()
}

/// Returns the number of blocks that have mappings of their own, and their bytes.
pub(crate) fn apart(arena: &ArenaGuard) -> (usize, usize) {
    let totals = arena.mappings.totals();
    (totals.count as usize, totals.bytes as usize)
}

/// The mark of the long block at an address: 0, or another even value, for none.
struct Mark(&'static AtomicUsize);

/// The block is live.
const LIVE: usize = 1;
/// The block is free, and in a thread's cache.
const CACHED: usize = 3;
/// The block got room to grow.
const ROOMY: usize = 4;
/// The bits of the block's length, a multiple of the page.
const LENGTH: usize = !(PAGE - 1);

impl Mark {
    /// Returns the mark of a block at this address; `None` when it does not lie in the pages, or no long block can
    /// start there.
    fn of(block: NonNull<u8>) -> Option<Mark> {
        let address = block.addr().get();
        ARENA.number_of(address)?;
        if !address.is_multiple_of(PAGE) {
            return Some(Mark(&NEVER));
        }
        // SAFETY: the address lies in the pages, so the table has a word for it, which is aligned and used as an atomic
        // one wherever a long block can be; slabs, whose links use the other words, are no long blocks.
        Some(Mark(unsafe { AtomicUsize::from_ptr(ARENA.side_table().word(block.as_ptr())) }))
    }

    fn set(&self, length: usize) {
        self.0.store(length | LIVE, Ordering::Release);
    }

    fn set_with_room(&self, length: usize) {
        self.0.store(length | ROOMY | LIVE, Ordering::Release);
    }

    fn has_room(&self) -> bool {
        self.0.load(Ordering::Relaxed) & ROOMY != 0
    }

    fn erase(&self) {
        self.0.store(0, Ordering::Release);
    }

    fn live_length(&self) -> Option<usize> {
        let value = self.0.load(Ordering::Acquire);
        (value & CACHED == LIVE).then_some(value & LENGTH)
    }

    fn cached_length(&self) -> Option<usize> {
        let value = self.0.load(Ordering::Acquire);
        (value & CACHED == CACHED).then_some(value & LENGTH)
    }

    /// Marks a live block as cached; returns its length. Of two threads that free a block at the same time, both may
    /// succeed: only a later free is refused.
    fn clear_live(&self) -> Result<usize, FreeError> {
        let value = self.0.load(Ordering::Acquire);
        match value & CACHED {
            LIVE => {
                self.0.store(value | CACHED, Ordering::Release);
                Ok(value & LENGTH)
            }
            CACHED => Err(FreeError::AlreadyFree),
            _ => Err(FreeError::NotABlock),
        }
    }
}

/// The mark of addresses at which no long block can start.
static NEVER: AtomicUsize = AtomicUsize::new(0);
