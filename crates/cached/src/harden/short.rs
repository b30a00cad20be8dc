//! Blocks that have a class: each lies in a slab, and has a record.

use core::ptr::NonNull;

use heapwright_heaps::{FreeError, ResizeError};
use heapwright_os::prefetch;

use super::cache::Cache;
use super::fault::{Fault, end};
use super::record::{Record, record};
use super::span::SlabAt;
use super::zeros::Contents;
use super::{Measures, canary, shelf, span, zeros};
use crate::counts;
use heapwright_slabs::arena::ARENA;
use heapwright_slabs::classes::{GRAIN, SLAB, blocks_before, number_of_block, size_of_class};
use heapwright_slabs::mode;
use heapwright_slabs::mode::measures;
use heapwright_slabs::platform::is_single_threaded;

/// A block of a slab.
#[derive(Clone, Copy)]
pub(super) struct Short {
    block: NonNull<u8>,
    class: usize,
    record: &'static Record,
}

/// Allocates a block of a class for `size` bytes, from the calling thread's cache if it has one.
pub(super) fn allocate(
    class: usize,
    size: usize,
    contents: Contents,
    measures: Measures,
    cache: Option<&mut Cache>,
) -> Option<NonNull<u8>> {
    let taken = match cache {
        Some(cache) => cache.take(class, measures),
        None => shelf::take_one(class),
    };
    let block = Short::taken(taken?, class).begin(size, contents, measures);
    if mode::is_counted() {
        counts::record_allocation(Some(class), size, size_of_class(class));
    }
    Some(block)
}

/// Allocates a block of a class for `size` bytes as [`allocate`] does, without counting it; `None` when the cache has
/// to be refilled.
#[inline(always)]
pub(super) fn allocate_at_once(
    class: usize,
    size: usize,
    contents: Contents,
    measures: Measures,
    cache: &mut Cache,
) -> Option<NonNull<u8>> {
    let taken = cache.take_at_once(class, measures)?;
    Some(Short::taken(taken, class).begin(size, contents, measures))
}

impl Short {
    /// Wraps the block at an address in this slab; `None` if none begins there.
    #[inline(always)]
    pub(super) fn at(block: NonNull<u8>, slab: &SlabAt) -> Option<Short> {
        let offset = block.addr().get() % SLAB;
        let at = blocks_before(offset, slab.class)?;
        let fits = offset + size_of_class(slab.class) <= slab.length;
        fits.then(|| Short { block, class: slab.class, record: record(slab.run, at) })
    }

    /// Wraps a block of a class that came from a slab.
    #[inline(always)]
    fn taken(block: NonNull<u8>, class: usize) -> Short {
        let address = block.addr().get();
        let number = (address - ARENA.base().addr()) / SLAB;
        let at = number_of_block(address % SLAB, class);
        Short { block, class, record: record(span::run(number as u32), at) }
    }

    /// Makes the block, which was free, the program's.
    #[inline(always)]
    fn begin(self, size: usize, contents: Contents, measures: Measures) -> NonNull<u8> {
        if measures.have(Measures::ZERO) {
            // No program writes to a block that it never had, and its pages may never have been in memory.
            if self.record.was_used() || contents == Contents::Zeros {
                self.check_unused();
            }
        } else if contents == Contents::Zeros {
            // SAFETY: the block is free, and as long as its class.
            unsafe { zeros::clear(self.block, size_of_class(self.class)) };
        }
        self.set_size(size, measures);
        self.block
    }

    /// Returns the length of the block without the room for the canary.
    #[inline(always)]
    fn whole(self, measures: Measures) -> usize {
        size_of_class(self.class) - canary::room(measures)
    }

    /// Records that the program has the block, of which it requested `size` bytes, and puts the canary behind these, at
    /// least one.
    #[inline]
    fn set_size(self, size: usize, measures: Measures) {
        let mut slack = 0;
        if measures.have(Measures::CANARY) {
            let size = size.max(1);
            slack = self.whole(measures) - size;
            // SAFETY: the block has a class that holds both.
            unsafe { canary::put(self.block, size) };
        }
        self.record.set_used(slack);
    }

    /// Returns how many bytes the program may use; `None` when it does not have the block.
    pub(super) fn usable_size(self) -> Option<usize> {
        self.record.slack().map(|slack| self.whole(measures()).saturating_sub(slack))
    }

    /// Ends the process if the bytes behind the first `size` were overwritten.
    #[inline]
    fn check_end(self, size: usize, measures: Measures) {
        // SAFETY: behind the block there is a canary.
        if measures.have(Measures::CANARY) && !unsafe { canary::is_intact(self.block, size) } {
            self.end_overflown(size);
        }
    }

    #[cold]
    #[inline(never)]
    fn end_overflown(self, size: usize) -> ! {
        end(&Fault::Overflow { size }, self.block)
    }

    /// Ends the process if the free block is not zero.
    #[inline(always)]
    fn check_unused(self) {
        // SAFETY: the block is as long as its class, and free.
        if !unsafe { zeros::is_clear(self.block, size_of_class(self.class)) } {
            self.end_used();
        }
    }

    #[cold]
    #[inline(never)]
    fn end_used(self) -> ! {
        let size = size_of_class(self.class);
        // SAFETY: as above.
        let at = unsafe { zeros::first_other(self.block, size) };
        end(&Fault::UseAfterFree { size, at }, self.block)
    }

    /// Frees the block, into the calling thread's cache if it has one.
    ///
    /// # Errors
    /// [`FreeError::AlreadyFree`].
    pub(super) fn free(self, measures: Measures, cache: Option<&mut Cache>) -> Result<(), FreeError> {
        self.end(measures)?;
        if mode::is_counted() {
            counts::record_free(Some(self.class), size_of_class(self.class));
        }
        match cache {
            Some(cache) => _ = cache.free(self.block, self.class, measures),
            None => shelf::put(self.class, &[self.block.as_ptr()]),
        }
        Ok(())
    }

    /// Frees the block into a cache as [`Short::free`] does, without counting it. Returns `false` if the program does
    /// not have the block.
    #[inline(always)]
    pub(super) fn free_into(self, cache: &mut Cache, measures: Measures) -> bool {
        if measures.have(Measures::CANARY) {
            // The record is exchanged before the canary can be read: meanwhile that is on its way.
            prefetch(self.block.as_ptr().wrapping_add(size_of_class(self.class) - GRAIN));
        }
        self.end(measures).is_ok() && cache.free(self.block, self.class, measures)
    }

    /// Whether the record is still the block's. A slab stays as long as the program has a block of it: it is gone when
    /// another thread has freed this block too since its record was looked up.
    #[inline(always)]
    fn is_in_its_slab(self) -> bool {
        let own = |slab: SlabAt| Short::at(self.block, &slab).is_some_and(|now| core::ptr::eq(now.record, self.record));
        is_single_threaded() || span::slab_at(self.block.addr().get()).is_some_and(own)
    }

    /// Makes the block free: the program does not have it any more.
    #[inline(always)]
    fn end(self, measures: Measures) -> Result<(), FreeError> {
        let slack = self.record.set_free().ok_or(FreeError::AlreadyFree)?;
        if !self.is_in_its_slab() {
            self.record.set_used(slack);
            return Err(FreeError::AlreadyFree);
        }
        self.check_end(self.whole(measures).saturating_sub(slack), measures);
        if measures.have(Measures::ZERO) {
            // SAFETY: the program has given the block up.
            unsafe { zeros::clear(self.block, size_of_class(self.class)) };
        }
        Ok(())
    }

    /// Makes the block hold `size` bytes, for which `wanted` is the class, if it has room for these and wastes little.
    ///
    /// # Errors
    /// [`ResizeError`].
    pub(super) fn resize(self, size: usize, wanted: Option<usize>) -> Result<(), ResizeError> {
        let measures = measures();
        let before = self.usable_size().ok_or(ResizeError::NotABlock)?;
        self.check_end(before, measures);
        let class = wanted.filter(|&class| is_room_for(self.class, class)).ok_or(ResizeError::NoRoom)?;
        if measures.have(Measures::CANARY) {
            // SAFETY: the canary lies in the block, behind what the program uses.
            unsafe { canary::remove(self.block, before) };
        }
        if measures.have(Measures::ZERO) && size < before {
            // SAFETY: the program does not use these bytes any more.
            unsafe { self.block.add(size).write_bytes(0, before - size) };
        }
        self.set_size(size, measures);
        if !measures.have(Measures::CANARY) {
            // The block is as long as one of that class to the program.
            self.record.set_used(size_of_class(self.class) - size_of_class(class));
        }
        Ok(())
    }
}

/// Returns whether a block of a class stays when it is resized to a length of another class: not if less than half of
/// it would be needed, unless it is short.
fn is_room_for(class: usize, wanted: usize) -> bool {
    const SHORT: usize = 64;
    let (whole, wanted) = (size_of_class(class), size_of_class(wanted));
    wanted <= whole && (wanted > whole / 2 || whole <= SHORT)
}
