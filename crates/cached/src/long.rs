//! Long blocks: those above the longest class, and those of threads without a heap.
//!
//! Up to [`LONGEST_PLACED`] bytes the page heap places them, between the slabs; where there is room they grow beyond. The
//! mark of each, in the table beside the pages, holds its length and whether the program has it: a free and a query of
//! the length take no lock. With more than one thread, each keeps a few freed ones (`kept`), so that pairs of requests
//! and frees take none either.
//!
//! Longer blocks, and those of more than [`LONGEST_COPIED`] bytes that cannot grow where they are, have mappings of their
//! own, which the system moves when they are resized. They are kept in a table behind the lock of the pages. No system
//! call for them is made under that lock, but to make the table longer.

mod kept;

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

use heapwright_heaps::{FreeError, Mapping, ResizeError};
use heapwright_os::{is_single_threaded, map, map_aligned, page_size, purge, remap, round_to_pages, unmap};

use crate::classes::{GRAIN, LARGEST};
use crate::ground::{GROUND, Held};
use crate::heap::Owned;
use crate::slab::PAGE;
use crate::{NotMoved, OutOfMemory, counts, thread};

pub(crate) use kept::Kept;
use kept::Released;

/// The longest blocks that the page heap places.
const LONGEST_PLACED: usize = 32 << 20;

/// The longest alignment of blocks that the page heap places.
const MOST_ALIGNED: usize = 1 << 20;

/// A block that is longer than this and has to be moved to grow gets a mapping of its own.
const LONGEST_COPIED: usize = 1 << 20;

/// A mapping that is resized to less than this becomes a placed block.
const SHORTEST_MAPPED: usize = 128 << 10;

/// A new block.
struct Placed {
    block: NonNull<u8>,
    length: usize,
    /// How many bytes at the block's start may not be zero.
    dirty: usize,
}

/// Allocates a block that is counted.
pub(crate) fn allocate(layout: Layout) -> Result<NonNull<u8>, OutOfMemory> {
    let placed = place(layout)?;
    count(layout, &placed);
    Ok(placed.block)
}

/// As [`allocate`]; the block is zero up to its usable size.
pub(crate) fn allocate_zeroed(layout: Layout) -> Result<NonNull<u8>, OutOfMemory> {
    let placed = place(layout)?;
    // SAFETY: the block is new.
    unsafe { zero(placed.block, placed.dirty) };
    count(layout, &placed);
    Ok(placed.block)
}

fn count(layout: Layout, placed: &Placed) {
    if counts::are_kept() {
        counts::see_allocated(None, layout.size(), placed.length);
    }
}

#[inline(never)]
fn place(layout: Layout) -> Result<Placed, OutOfMemory> {
    if layout.size() > LONGEST_PLACED || layout.align() > MOST_ALIGNED {
        return map_apart(layout);
    }
    if let Some((block, length)) = take_kept(layout) {
        return Ok(Placed { block, length, dirty: length });
    }
    let placed = thread::ground().ok_or(OutOfMemory).and_then(|mut ground| place_among_slabs(&mut ground, layout));
    placed.or_else(|OutOfMemory| map_apart(layout))
}

fn place_among_slabs(ground: &mut Held, layout: Layout) -> Result<Placed, OutOfMemory> {
    let untouched = ground.pages.untouched_from();
    let block = ground.place(layout)?;
    let length = ground.pages.usable_size(block).ok_or(OutOfMemory)?;
    let offset = block.addr().get() - GROUND.base().addr();
    Mark::of(block).ok_or(OutOfMemory)?.set(length);
    Ok(Placed { block, length, dirty: untouched.saturating_sub(offset).min(length) })
}

/// Makes the first `bytes` of a block zero.
///
/// # Safety
/// The block is that long, and its contents are not needed.
unsafe fn zero(block: NonNull<u8>, bytes: usize) {
    /// From here on it takes less time to give the pages back.
    const LARGE: usize = 1 << 20;
    let whole = bytes & !(page_size() - 1);
    // SAFETY: as this function requires.
    unsafe {
        let is_page_aligned = block.addr().get().is_multiple_of(page_size());
        if bytes >= LARGE && is_page_aligned && purge(block, whole).is_ok() {
            block.add(whole).write_bytes(0, bytes - whole);
        } else {
            block.write_bytes(0, bytes);
        }
    }
}

/// Allocates a block in a mapping of its own.
fn map_apart(layout: Layout) -> Result<Placed, OutOfMemory> {
    let length = round_to_pages(layout.size()).ok_or(OutOfMemory)?;
    let mapped = if layout.align() <= page_size() { map(length) } else { map_aligned(length, layout.align()) };
    let block = mapped.map_err(|_| OutOfMemory)?;
    let has_room = thread::ground().is_some_and(|mut ground| {
        let has_room = ground.mappings.make_room().is_ok();
        if has_room {
            ground.mappings.insert(Mapping { address: block.addr().get(), length });
        }
        has_room
    });
    if has_room {
        return Ok(Placed { block, length, dirty: 0 });
    }
    // SAFETY: the mapping is new, and nobody knows of it.
    let _ = unsafe { unmap(block, length) };
    Err(OutOfMemory)
}

/// Frees a long block.
///
/// # Errors
/// [`FreeError`]; nothing has changed then.
///
/// # Safety
/// If `block` is a block, nobody uses it any more.
#[inline(never)]
pub(crate) unsafe fn free(block: NonNull<u8>) -> Result<(), FreeError> {
    let length = match Mark::of(block) {
        Some(mark) => {
            let length = mark.clear_live()?;
            keep_or_release(block, length);
            length
        }
        // SAFETY: as this function requires.
        None => unsafe { unmap_apart(block) }?,
    };
    if counts::are_kept() {
        counts::see_freed(None, length);
    }
    Ok(())
}

/// # Safety
/// As [`free`].
#[inline(never)]
unsafe fn unmap_apart(block: NonNull<u8>) -> Result<usize, FreeError> {
    let mut ground = GROUND.shared().ok_or(FreeError::NotABlock)?;
    let length = ground.mappings.remove(block.addr().get()).ok_or(FreeError::NotABlock)?;
    drop(ground);
    // SAFETY: the mapping was this heap's, and nobody uses it any more.
    unsafe {
        if unmap(block, length).is_err() {
            // There are too many mappings to split one. Its addresses leak, its memory does not.
            let _ = purge(block, length);
        }
    }
    Ok(length)
}

/// Gives placed blocks, which nobody uses, back to the page heap.
#[inline(never)]
fn release(blocks: &Released) {
    if blocks.is_empty() {
        return;
    }
    let Some(mut ground) = GROUND.shared() else { return };
    for block in blocks.each() {
        if let Some(mark) = Mark::of(block) {
            mark.erase();
        }
        // SAFETY: nobody uses the block.
        let _ = unsafe { ground.remove(block) };
    }
}

fn take_kept(layout: Layout) -> Option<(NonNull<u8>, usize)> {
    if is_single_threaded() {
        return None;
    }
    let (block, length) = thread::heap_of_its_own()?.kept().take(layout)?;
    Mark::of(block)?.set(length);
    Some((block, length))
}

/// Keeps a freed block for its thread, or gives it and others back.
fn keep_or_release(block: NonNull<u8>, length: usize) {
    let heap = if is_single_threaded() { None } else { thread::heap_of_its_own() };
    match heap.filter(|_| length <= Kept::LONGEST) {
        Some(mut heap) => release(&heap.kept().add(block, length)),
        None => release(&Released::one(block)),
    }
}

/// Gives back what a heap keeps.
pub(crate) fn release_kept(mut heap: Owned) {
    release(&heap.kept().take_all());
}

/// Returns the usable size of a long block; `None` when none starts there.
#[inline(never)]
pub(crate) fn usable_size(block: NonNull<u8>) -> Option<usize> {
    match Mark::of(block) {
        Some(mark) => mark.live_length(),
        None => GROUND.shared()?.mappings.get(block.addr().get()),
    }
}

/// Resizes a long block where it is, if that is possible and little is lost by it.
///
/// # Errors
/// [`ResizeError`]; nothing has changed then.
///
/// # Safety
/// If `block` is a block, nobody uses its bytes above `size` any more.
pub(crate) unsafe fn resize_in_place(block: NonNull<u8>, size: usize) -> Result<(), ResizeError> {
    let Some(mark) = Mark::of(block) else {
        let length = usable_size(block).ok_or(ResizeError::NotABlock)?;
        return if size <= length && size > length / 2 { Ok(()) } else { Err(ResizeError::NoRoom) };
    };
    let before = mark.live_length().ok_or(ResizeError::NotABlock)?;
    if size <= LARGEST {
        return Err(ResizeError::NoRoom);
    }
    if size <= before && before - size < PAGE {
        return Ok(());
    }
    let mut ground = GROUND.shared().ok_or(ResizeError::NotABlock)?;
    // SAFETY: as this function requires.
    unsafe { ground.resize(block, before, size) }?;
    let after = ground.pages.usable_size(block).unwrap_or(before);
    mark.set(after);
    drop(ground);
    if counts::are_kept() {
        counts::see_resized(before, after);
    }
    Ok(())
}

/// Makes a long block that cannot be resized in place hold `size` bytes elsewhere, without a copy; `None` when it has to
/// be copied to a block from [`allocate_to_grow`].
///
/// # Errors
/// [`NotMoved`]; nothing has changed then.
///
/// # Safety
/// As [`resize_in_place`]; if another block is returned, the old one is not used any more.
pub(crate) unsafe fn remap_apart(block: NonNull<u8>, size: usize) -> Result<Option<NonNull<u8>>, NotMoved> {
    if Mark::of(block).is_some() || size < SHORTEST_MAPPED {
        return Ok(None);
    }
    let after = round_to_pages(size).ok_or(NotMoved::OutOfMemory)?;
    let address = block.addr().get();
    let taken = GROUND.shared().and_then(|mut ground| ground.mappings.take_out(address));
    let before = taken.ok_or(NotMoved::NotABlock)?;
    // SAFETY: the mapping is this heap's. It is not in the table: nobody else resizes or frees it.
    let moved = unsafe { remap(block, before, after) };
    let mapping = match moved {
        Ok(moved) => Mapping { address: moved.addr().get(), length: after },
        Err(_) => Mapping { address, length: before },
    };
    if let Some(mut ground) = GROUND.shared() {
        ground.mappings.put_back(mapping);
    }
    // What the system does not move, as when the program has given parts of it other access, is copied.
    let Ok(moved) = moved else { return Ok(None) };
    if counts::are_kept() {
        counts::see_resized(before, after);
    }
    Ok(Some(moved))
}

/// Allocates a block in the place of one of `before` bytes that cannot grow where it is. A long one will not be copied
/// again: the system moves its mapping.
pub(crate) fn allocate_to_grow(before: usize, size: usize) -> Result<NonNull<u8>, OutOfMemory> {
    let layout = Layout::from_size_align(size, GRAIN).map_err(|_| OutOfMemory)?;
    let placed = if before > LONGEST_COPIED && size > before { map_apart(layout) } else { place(layout) }?;
    count(layout, &placed);
    Ok(placed.block)
}

/// How many blocks have mappings of their own, and their bytes.
pub(crate) fn apart(ground: &Held) -> (usize, usize) {
    (ground.mappings.count(), ground.mappings.iter().map(|mapping| mapping.length).sum())
}

/// The mark of the long block at an address: 0, or what else is even, for none.
struct Mark(&'static AtomicUsize);

/// The program has the block. The bits above are its length, a multiple of the page.
const LIVE: usize = 1;
/// A thread keeps the block, which is free.
const KEPT: usize = 3;

impl Mark {
    /// The place of the mark of a block at this address; `None` when it does not lie in the pages, or no long block can
    /// start there.
    fn of(block: NonNull<u8>) -> Option<Mark> {
        let address = block.addr().get();
        GROUND.number_of(address)?;
        if !address.is_multiple_of(PAGE) {
            return Some(Mark(&NEVER));
        }
        // SAFETY: the address lies in the pages, so the table has a word for it, which is aligned and used as an atomic
        // one wherever a long block can be; slabs, whose links use the other words, are no long blocks.
        Some(Mark(unsafe { AtomicUsize::from_ptr(GROUND.beside().word(block.as_ptr())) }))
    }

    fn set(&self, length: usize) {
        self.0.store(length | LIVE, Ordering::Release);
    }

    fn erase(&self) {
        self.0.store(0, Ordering::Release);
    }

    fn live_length(&self) -> Option<usize> {
        let value = self.0.load(Ordering::Acquire);
        (value & KEPT == LIVE).then_some(value & !KEPT)
    }

    /// The program gives the block up; returns its length. Of two threads that free a block at the same time, both may
    /// come here: only one that comes later is refused.
    fn clear_live(&self) -> Result<usize, FreeError> {
        let value = self.0.load(Ordering::Acquire);
        match value & KEPT {
            LIVE => {
                self.0.store(value | KEPT, Ordering::Release);
                Ok(value & !KEPT)
            }
            KEPT => Err(FreeError::AlreadyFree),
            _ => Err(FreeError::NotABlock),
        }
    }
}

/// The mark of addresses at which no long block can start.
static NEVER: AtomicUsize = AtomicUsize::new(0);
