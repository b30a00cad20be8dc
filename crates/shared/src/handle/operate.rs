//! Allocation and free.

use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;

use heapwright_placement::{AllocateError, BlockState, Engine, FreeError, Noted, ResizeError};

use crate::format::process_slot::ProcessSlot;
use crate::handle::heap::{Section, SharedHeap};
use crate::slabs::parts::{Small, is_slab, size_of_block};
use crate::terms::error::Error;
use crate::terms::offset::{Offset, Relocatable};

/// Copying as many bytes takes about as long as taking the lock once more.
const COPIED_UNDER_THE_LOCK: usize = 4096;

/// What became of a block of the engine that is to hold more or fewer bytes.
enum Resized {
    /// It is there, with its contents.
    At(Offset),
    /// The bytes that it `holds` are to be copied to `moved`, and it is to be freed.
    Uncopied { moved: Offset, holds: usize },
}

impl SharedHeap {
    /// Allocates a block for `bytes` (0 is taken as 1), aligned to the granule; its contents are whatever they were.
    ///
    /// A heap that may grow does when no hole fits. Time: the policy's, and a lock's.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::NoSpace`] when the system has no more for a heap that must grow, [`Error::TimedOut`],
    /// [`Error::Corrupted`].
    #[inline(always)]
    pub fn allocate(&self, bytes: usize) -> Result<Offset, Error> {
        match self.take_known(bytes) {
            Some(place) => Ok(self.mapping.offset_at(place)),
            None => self.allocate_unknown(bytes, 1),
        }
    }

    /// Allocates a block for `bytes` (0 is taken as 1) if a slab of this process is known to have a free one, in a few
    /// instructions and without the lock. Returns its address in this mapping of the segment; `None` otherwise, also
    /// where [`SharedHeap::allocate`] would return a block.
    #[inline(always)]
    #[must_use]
    pub fn allocate_known(&self, bytes: usize) -> Option<NonNull<u8>> {
        let place = self.take_known(bytes)?;
        // SAFETY: the block lies in the data.
        Some(unsafe { self.mapping.blocks().add(place) })
    }

    /// Allocates a block for `bytes` whose address is a multiple of `align` in every process.
    ///
    /// # Errors
    /// [`Error::BadAlignment`] when `align` is no power of two or above 4096 (under buddies, in a heap that cannot
    /// grow, above what its data begins at: 64 or the granule at least); and as [`SharedHeap::allocate`].
    #[inline(always)]
    pub fn allocate_aligned(&self, bytes: usize, align: usize) -> Result<Offset, Error> {
        if align.is_power_of_two() && align <= self.granule() {
            return self.allocate(bytes);
        }
        let most = self.mapping.layout.max_align();
        if !align.is_power_of_two() || align > most {
            return Err(Error::BadAlignment { align, most });
        }
        self.allocate_unknown(bytes, align)
    }

    /// Allocates a block of a slab that is still to be found, or else of the engine. What slabs do not need is taken
    /// from them when the heap is full.
    #[inline(never)]
    fn allocate_unknown(&self, bytes: usize, align: usize) -> Result<Offset, Error> {
        if let Some(offset) = self.allocate_small(bytes, align)? {
            return Ok(offset);
        }
        let placed = self.enter()?.allocate(bytes, align);
        match placed {
            Err(Error::Full { .. } | Error::NoSpace { .. }) if self.tidy_slabs()? => {
                // In a slab that was adopted, or where one was.
                match self.allocate_small(bytes, align)? {
                    Some(offset) => Ok(offset),
                    None => self.enter()?.allocate(bytes, align),
                }
            }
            placed => placed,
        }
    }

    /// Frees the block at `offset` and merges it with its free neighbours.
    ///
    /// The block's offset must not be used any more; in particular, no root should point at it. This is safe, as
    /// offsets are: to access a block, by its address, by a word in it or by a collection that has it, takes a promise
    /// that it is not freed.
    ///
    /// # Errors
    /// [`Error::NotABlock`], [`Error::AlreadyFree`], [`Error::TimedOut`], [`Error::Corrupted`].
    #[inline(always)]
    pub fn deallocate(&self, offset: Offset) -> Result<(), Error> {
        let place = (offset.get() as usize).wrapping_sub(self.mapping.layout.data);
        if self.put_back_own(place) { Ok(()) } else { self.deallocate_other(offset) }
    }

    /// Frees a block of the engine, or of a slab on which this thread does not work.
    #[inline(never)]
    fn deallocate_other(&self, offset: Offset) -> Result<(), Error> {
        if self.give_small(offset)? { Ok(()) } else { self.enter()?.deallocate(offset) }
    }

    /// As [`SharedHeap::deallocate`], for the block that starts at `pointer` in this mapping of the segment.
    ///
    /// # Errors
    /// As [`SharedHeap::deallocate`]; [`Error::NotABlock`] also for a pointer to elsewhere, such as another mapping.
    #[inline(always)]
    pub fn deallocate_pointer(&self, pointer: NonNull<u8>) -> Result<(), Error> {
        if self.deallocate_known(pointer) { Ok(()) } else { self.deallocate_other_pointer(pointer) }
    }

    /// Frees the block that starts at `pointer` in this mapping of the segment if it lies in a slab of this process, in
    /// a few instructions. Returns whether it was freed; [`SharedHeap::deallocate_pointer`] frees all others.
    #[inline(always)]
    pub fn deallocate_known(&self, pointer: NonNull<u8>) -> bool {
        self.put_back_own(pointer.addr().get().wrapping_sub(self.mapping.blocks().addr().get()))
    }

    #[inline(never)]
    fn deallocate_other_pointer(&self, pointer: NonNull<u8>) -> Result<(), Error> {
        match self.offset_of(pointer) {
            Some(offset) => self.deallocate_other(offset),
            None => Err(Error::NotABlock { offset: self.distance_to(pointer) as u64 }),
        }
    }

    /// Makes the block at `offset` hold `bytes` (0 is taken as 1) where it is.
    ///
    /// # Errors
    /// [`Error::NoRoom`], and as [`SharedHeap::deallocate`].
    pub fn resize_in_place(&self, offset: Offset, bytes: usize) -> Result<(), Error> {
        match self.small_size(offset)? {
            Some(size) if bytes <= size => Ok(()),
            Some(_) => Err(Error::NoRoom { bytes }),
            None => self.enter()?.resize(offset, bytes),
        }
    }

    /// Makes the block at `offset` hold `bytes` (0 is taken as 1), where it is or, with its contents, elsewhere;
    /// returns where.
    ///
    /// Long contents are copied without the lock, so that the others go on meanwhile. A process that is killed on the
    /// way may leave the block at both places, the new one being its own.
    ///
    /// # Errors
    /// As [`SharedHeap::resize_in_place`] and [`SharedHeap::allocate`]; the block is as before. If it is
    /// [`Error::TimedOut`] after the contents were copied, the copy stays as another block of the caller's.
    ///
    /// # Safety
    /// Until this returns, no other thread of any process frees or resizes the block, or writes to it.
    ///
    /// ```compile_fail,E0133
    /// use heapwright_shared::{Offset, SharedHeap};
    ///
    /// fn lengthen(heap: &SharedHeap, block: Offset) -> Option<Offset> {
    ///     heap.resize(block, 100).ok() // needs an `unsafe` block, with the promise beside it
    /// }
    /// ```
    pub unsafe fn resize(&self, offset: Offset, bytes: usize) -> Result<Offset, Error> {
        if let Some(had) = self.small_size(offset)? {
            // SAFETY: the caller's promise; the block has `had` bytes.
            return unsafe { self.resize_small(offset, had, bytes) };
        }
        // SAFETY: the caller's promise.
        let resized = match unsafe { self.resize_or_place(offset, bytes) } {
            Err(Error::Full { .. } | Error::NoSpace { .. }) if self.tidy_slabs()? => {
                // SAFETY: as above.
                unsafe { self.resize_or_place(offset, bytes)? }
            }
            resized => resized?,
        };
        let (moved, holds) = match resized {
            Resized::At(offset) => return Ok(offset),
            Resized::Uncopied { moved, holds } => (moved, holds),
        };
        // SAFETY: nothing uses the new block yet; the old one is the caller's, who promises that nothing writes to it.
        unsafe { self.mapping.copy_block(offset, moved, holds) };
        let mut section = self.enter()?;
        match section.deallocate(offset) {
            Ok(()) => Ok(moved),
            // Another thread has freed it, against the rules.
            Err(refused) => section.deallocate(moved).and(Err(refused)),
        }
    }

    /// Makes a block of the engine hold `bytes` where it is, or elsewhere if it is short enough to be copied under the
    /// lock; otherwise allocates another one for its contents.
    ///
    /// # Safety
    /// As [`SharedHeap::resize`].
    unsafe fn resize_or_place(&self, offset: Offset, bytes: usize) -> Result<Resized, Error> {
        let mut section = self.enter()?;
        match section.resize(offset, bytes) {
            Err(Error::NoRoom { .. }) => {}
            resized => return resized.map(|()| Resized::At(offset)),
        }
        let holds = section.usable_size(offset)?.min(bytes);
        let moved = section.allocate(bytes, 1)?;
        if holds > COPIED_UNDER_THE_LOCK {
            return Ok(Resized::Uncopied { moved, holds });
        }
        // SAFETY: nothing uses the new block yet, and nothing writes to the old one.
        unsafe { self.mapping.copy_block(offset, moved, holds) };
        section.deallocate(offset).map(|()| Resized::At(moved))
    }

    /// Makes a block of a slab, `had` bytes long, hold `bytes`. Killed before the free, this process has the block
    /// twice.
    ///
    /// # Safety
    /// As [`SharedHeap::resize`].
    unsafe fn resize_small(&self, offset: Offset, had: usize, bytes: usize) -> Result<Offset, Error> {
        if bytes <= had {
            return Ok(offset);
        }
        let moved = self.allocate(bytes)?;
        // SAFETY: as above.
        unsafe { self.mapping.copy_block(offset, moved, had) };
        match self.deallocate(offset) {
            Ok(()) => Ok(moved),
            Err(refused) => self.deallocate(moved).and(Err(refused)),
        }
    }

    /// Returns how many bytes the block at `offset` holds: what was asked for, rounded up.
    ///
    /// # Errors
    /// As [`SharedHeap::deallocate`].
    pub fn usable_size(&self, offset: Offset) -> Result<usize, Error> {
        match self.small_size(offset)? {
            Some(size) => Ok(size),
            None => self.enter()?.usable_size(offset),
        }
    }

    /// Allocates a block that holds `value`.
    ///
    /// # Errors
    /// As [`SharedHeap::allocate_aligned`].
    pub fn allocate_value<T: Relocatable>(&self, value: T) -> Result<Offset<T>, Error> {
        let offset = self.allocate_aligned(size_of::<T>(), align_of::<T>())?.cast();
        // SAFETY: the block is new, as long and as aligned as a `T`.
        unsafe { self.pointer(offset).write(value) };
        Ok(offset)
    }

    /// Returns a reference to the value at `offset`.
    ///
    /// # Safety
    /// A valid `T` lies at `offset` in a block of this heap; for as long as the reference lives, no thread of any
    /// process frees or resizes the block, or changes what is behind the reference. Words that others change meanwhile
    /// are read by [`SharedHeap::load_word`].
    #[inline]
    #[must_use]
    pub unsafe fn get<T: Relocatable>(&self, offset: Offset<T>) -> &T {
        // SAFETY: the caller's promise.
        unsafe { self.pointer(offset).as_ref() }
    }
}

impl Section<'_> {
    #[inline(always)]
    fn allocate(&mut self, bytes: usize, align: usize) -> Result<Offset, Error> {
        match self.place(bytes, align) {
            Ok(place) => Ok(self.mapping().offset_at(place)),
            Err(AllocateError::RegionFull) => self.allocate_grown(bytes, align),
            Err(AllocateError::BadAlignment) => {
                Err(Error::BadAlignment { align, most: self.mapping().layout.max_align() })
            }
        }
    }

    /// Places a block that is this process's own.
    ///
    /// What is on record until the block has its owner is the undoing: no process has the block's offset yet, and
    /// recovery leaves no block behind without an owner.
    #[inline(always)]
    pub(crate) fn place(&mut self, bytes: usize, align: usize) -> Result<usize, AllocateError> {
        let (mapping, record) = (self.mapping(), self.record());
        let view = self.view();
        let place = view.engine.allocate_noted(bytes, align, |change| record.write(change.undone()))?;
        if let Some(owner) = mapping.owner(place) {
            owner.store(view.slot, Relaxed);
        }
        mapping.count_of(view.slot, ProcessSlot::gain_block);
        record.clear();
        Ok(place)
    }

    /// Frees a block. What is on record is the free itself, which recovery completes.
    #[inline(always)]
    fn deallocate(&mut self, offset: Offset) -> Result<(), Error> {
        let place = self.place_of(offset)?;
        if is_slab(self.mapping(), self.heap_size(), place) {
            return Err(Error::NotABlock { offset: offset.get() });
        }
        self.release(place).map_err(|refused| refused_free(refused, offset))
    }

    /// Frees the block at `place`.
    #[inline(always)]
    pub(crate) fn release(&mut self, place: usize) -> Result<(), FreeError> {
        let (mapping, record) = (self.mapping(), self.record());
        let owner = mapping.owner_of(place);
        self.engine().deallocate_noted(place, |change| record.write(change))?;
        record.clear();
        mapping.count_of(owner, ProcessSlot::lose_block);
        Ok(())
    }

    pub(crate) fn resize(&mut self, offset: Offset, bytes: usize) -> Result<(), Error> {
        let place = self.place_of(offset)?;
        let had = self.usable_size(offset)?;
        let record = self.record();
        let resized = self.engine().resize_noted(place, had, bytes, |change| record.write(change));
        record.clear();
        resized.map_err(|refused| match refused {
            ResizeError::NotABlock => Error::NotABlock { offset: offset.get() },
            ResizeError::NoRoom => Error::NoRoom { bytes },
        })
    }

    pub(crate) fn usable_size(&mut self, offset: Offset) -> Result<usize, Error> {
        let place = self.place_of(offset)?;
        let size = self.engine().usable_size(place);
        size.ok_or_else(|| self.no_block(offset, place))
    }

    /// Returns the place and the length of the used block that starts at `offset`, in a slab or not.
    pub(crate) fn block_at(&mut self, offset: Offset) -> Result<(usize, usize), Error> {
        let place = self.place_of(offset)?;
        let size = size_of_block(self.mapping(), self.engine(), place);
        size.map(|size| (place, size)).ok_or_else(|| self.no_block(offset, place))
    }

    /// Returns why no used block starts at `offset`, which is at `place`.
    #[cold]
    fn no_block(&mut self, offset: Offset, place: usize) -> Error {
        let mapping = self.mapping();
        let small = if place < self.heap_size() { Small::at(mapping, place) } else { Ok(None) };
        let is_free = match small {
            Ok(Some(small)) => !small.is_live(),
            Ok(None) => self.engine().block_containing(place).is_some_and(|block| block.state == BlockState::Free),
            Err(_) => false,
        };
        let offset = offset.get();
        if is_free { Error::AlreadyFree { offset } } else { Error::NotABlock { offset } }
    }
}

#[cold]
pub(crate) fn refused_free(refused: FreeError, offset: Offset) -> Error {
    match refused {
        FreeError::AlreadyFree => Error::AlreadyFree { offset: offset.get() },
        _ => Error::NotABlock { offset: offset.get() },
    }
}
