//! Blocks that appear in a word of the segment, or disappear from it, in the same step as they are allocated or freed.
//!
//! A process that is killed between an allocation and the store that makes the block known leaks the block. Here both
//! are one: wherever the process is killed, the survivors find both done or neither.

use std::ptr::NonNull;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use heapwright_placement::{AllocateError, BlockState, Change, Engine, Noted};

use crate::error::Error;
use crate::heap::{Section, SharedHeap};
use crate::offset::{Offset, Relocatable};
use crate::operate::refused_free;
use crate::owners::owner_of;
use crate::processes::ProcessSlot;
use crate::publication::Published;

/// A word of a used block that contains the offset of a block, or 0.
type Link = Offset<Option<Offset>>;

impl SharedHeap {
    /// Allocates a block of `bytes`, has `fill` fill it, and stores its offset in `word`: all or nothing, wherever the
    /// process is killed.
    ///
    /// `fill` gets the block's address and what `word` contained. It runs under the heap's lock: it should be short,
    /// and must not use the heap. Other threads and processes change the word only by this, [`SharedHeap::resize_into`]
    /// and [`SharedHeap::free_from`]; they may read it at any time.
    ///
    /// ```
    /// use heapwright_shared::{Offset, Place, Settings, SharedHeap};
    /// # let place = Place::new(format!("heapwright-doc-into-{}", std::process::id()))?;
    /// # let heap = SharedHeap::create(&place, &Settings::default())?;
    /// let head: Offset<Option<Offset>> = heap.allocate_value(None)?;
    /// heap.set_root("list", head.cast())?;
    /// // Pushes a node whose first word is the link to the next one.
    /// heap.allocate_into(head, 16, |node, next| {
    ///     // SAFETY: the block is as long, and nobody else knows it yet.
    ///     unsafe { node.cast::<[u64; 2]>().write([next.map_or(0, Offset::get), 42]) };
    /// })?;
    /// # SharedHeap::unlink(&place)?;
    /// # Ok::<(), heapwright_shared::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NotAWord`]; [`Error::BadSettings`] in a heap made with slabs ([`Settings::small`]); and as
    /// [`SharedHeap::allocate`]. Nothing has changed then.
    ///
    /// [`Settings::small`]: crate::Settings::small
    pub fn allocate_into(
        &self,
        word: Link,
        bytes: usize,
        fill: impl FnOnce(NonNull<u8>, Option<Offset>),
    ) -> Result<Offset, Error> {
        self.enter()?.allocate_into(word, bytes, 1, fill)
    }

    /// As [`SharedHeap::allocate_into`], for a block that contains the value that `make` returns. `make` gets what
    /// `word` contained: the next node of a list, for instance.
    ///
    /// # Errors
    /// As [`SharedHeap::allocate_into`] and [`SharedHeap::allocate_aligned`].
    pub fn allocate_value_into<T: Relocatable>(
        &self,
        word: Offset<Option<Offset<T>>>,
        make: impl FnOnce(Option<Offset<T>>) -> T,
    ) -> Result<Offset<T>, Error> {
        let (align, most) = (align_of::<T>(), self.mapping.layout.max_align());
        if align > most {
            return Err(Error::BadAlignment { align, most });
        }
        let fill = |block: NonNull<u8>, old: Option<Offset>| {
            let value = make(old.map(Offset::cast));
            // SAFETY: the block is as long and as aligned as a `T`, and no other process knows it yet.
            unsafe { block.cast().write(value) };
        };
        Ok(self.enter()?.allocate_into(word.cast(), size_of::<T>(), align, fill)?.cast())
    }

    /// Makes the block whose offset `word` contains hold `bytes`, where it is or, with its contents, elsewhere; `word`
    /// then contains its new offset. Wherever the process is killed, the block is at one place, and `word` shows it.
    /// Returns where it is.
    ///
    /// Contents are copied under the heap's lock.
    ///
    /// # Errors
    /// [`Error::NotAWord`], also for a word in the block itself; [`Error::NotABlock`] when `word` contains no block's
    /// offset; and as [`SharedHeap::allocate_into`]. Nothing has changed then.
    pub fn resize_into(&self, word: Link, bytes: usize) -> Result<Offset, Error> {
        self.enter()?.resize_into(word, bytes)
    }

    /// Frees the block whose offset `word` contains, and stores in `word` what `next` returns, as one step. Returns the
    /// block's offset; `None`, and does nothing, if `word` contains 0.
    ///
    /// `next` gets the block's address, for the link to the next block of a list or a last look at its contents; `|_|
    /// None` empties the word. It runs under the heap's lock, as `fill` of [`SharedHeap::allocate_into`].
    ///
    /// # Errors
    /// [`Error::NotAWord`], also for a word in the block itself; [`Error::BadSettings`] in a heap made with slabs; and
    /// as [`SharedHeap::deallocate`].
    pub fn free_from(
        &self,
        word: Link,
        next: impl FnOnce(NonNull<u8>) -> Option<Offset>,
    ) -> Result<Option<Offset>, Error> {
        self.enter()?.free_from(word, next)
    }
}

impl Section<'_> {
    fn allocate_into(
        &mut self,
        word: Link,
        bytes: usize,
        align: usize,
        fill: impl FnOnce(NonNull<u8>, Option<Offset>),
    ) -> Result<Offset, Error> {
        self.require_word(word)?;
        let (mapping, record, slot) = (self.mapping(), self.record(), self.view().slot);
        let old = Offset::new(mapping.word(word.get()).load(Acquire));
        let mut fill = Some(fill);
        let place = self.place_with(bytes, align, |change| {
            let block = (mapping.layout.data + change.used_start) as u64;
            // A panic of the caller's code, or a kill in it, undoes what the engine may have prepared.
            record.write(change.undone());
            if let Some(fill) = fill.take() {
                // SAFETY: the engine has chosen the block, within the segment; nobody has it yet.
                fill(unsafe { mapping.base().add(block as usize) }, old);
            }
            if let Some(owner) = mapping.owner(change.used_start) {
                owner.store(slot, Relaxed);
            }
            mapping.count_of(slot, ProcessSlot::gain_block);
            mapping.header().publication.write(change, Published { word: word.get(), value: block });
        })?;
        let block = self.offset_at(place);
        self.publish(word, Some(block));
        Ok(block)
    }

    fn resize_into(&mut self, word: Link, bytes: usize) -> Result<Offset, Error> {
        let empty = Error::NotABlock { offset: 0 };
        let old = self.linked(word)?.ok_or(empty)?;
        match self.resize(old, bytes) {
            Err(Error::NoRoom { .. }) => {}
            resized => return resized.map(|()| old),
        }
        let holds = self.usable_size(old)?.min(bytes);
        let (mapping, record, slot) = (self.mapping(), self.record(), self.view().slot);
        // The undoing stays on record until the publication commits: a new block that no word shows is given back.
        let place = self.place_with(bytes, 1, |change| record.write(change.undone()))?;
        let moved = self.offset_at(place);
        if let Some(owner) = mapping.owner(place) {
            owner.store(slot, Relaxed);
        }
        mapping.count_of(slot, ProcessSlot::gain_block);
        mapping.copy_block(old, moved, holds);
        self.release_and_publish(old, word, Some(moved))?;
        Ok(moved)
    }

    fn free_from(
        &mut self,
        word: Link,
        next: impl FnOnce(NonNull<u8>) -> Option<Offset>,
    ) -> Result<Option<Offset>, Error> {
        let Some(block) = self.linked(word)? else { return Ok(None) };
        // SAFETY: a used block starts there, so it lies within the segment.
        let next = next(unsafe { self.mapping().base().add(block.get() as usize) });
        self.release_and_publish(block, word, next)?;
        Ok(Some(block))
    }

    /// Frees `block` and stores `value` in `word`.
    fn release_and_publish(&mut self, block: Offset, word: Link, value: Option<Offset>) -> Result<(), Error> {
        let (mapping, record, place) = (self.mapping(), self.record(), self.place_of(block)?);
        let owner = owner_of(mapping, place);
        let published = Published { word: word.get(), value: value.map_or(0, Offset::get) };
        let note = |change: Change| {
            mapping.header().publication.write(change, published);
            // From here on only for the end of the section, which looks at it alone.
            record.write(change);
        };
        self.engine().deallocate_noted(place, note).map_err(|refused| refused_free(refused, block))?;
        self.publish(word, value);
        mapping.count_of(owner, ProcessSlot::lose_block);
        Ok(())
    }

    /// Stores `value` in `word`, the last store of an operation.
    fn publish(&mut self, word: Link, value: Option<Offset>) {
        let mapping = self.mapping();
        mapping.publish(Published { word: word.get(), value: value.map_or(0, Offset::get) });
        mapping.header().clear_pending();
    }

    /// Places a block; the heap grows for it if it must. `note` is called once.
    fn place_with(&mut self, bytes: usize, align: usize, mut note: impl FnMut(Change)) -> Result<usize, Error> {
        match self.engine().allocate_noted(bytes, align, &mut note) {
            Ok(place) => Ok(place),
            Err(AllocateError::RegionFull) => {
                self.make_room(bytes, align)?;
                self.engine().allocate_noted(bytes, align, &mut note).map_err(|_| Error::Full { bytes })
            }
            Err(AllocateError::BadAlignment) => {
                Err(Error::BadAlignment { align, most: self.mapping().layout.max_align() })
            }
        }
    }

    /// The engine's blocks are those of the caller, not slabs.
    pub(crate) fn require_placed_blocks(&self) -> Result<(), Error> {
        match self.mapping().layout.shape {
            None => Ok(()),
            Some(_) => Err(Error::BadSettings {
                why: "a heap made with slabs has neither blocks that a word shows nor reclaim_unreachable",
            }),
        }
    }

    /// The used block whose offset `word` contains, apart from the block that `word` lies in.
    fn linked(&mut self, word: Link) -> Result<Option<Offset>, Error> {
        let around = self.require_word(word)?;
        let Some(block) = Offset::new(self.mapping().word(word.get()).load(Acquire)) else { return Ok(None) };
        self.usable_size(block)?;
        if self.place_of(block)? == around {
            return Err(Error::NotAWord { offset: word.get() });
        }
        Ok(Some(block))
    }

    /// Returns the place of the used block in which `word` lies.
    fn require_word(&mut self, word: Link) -> Result<usize, Error> {
        self.require_placed_blocks()?;
        let refused = Error::NotAWord { offset: word.get() };
        let place = self.place_of(word.cast()).map_err(|_| refused.clone())?;
        let around = self.engine().block_containing(place).filter(|block| block.state == BlockState::Used);
        around.filter(|_| place.is_multiple_of(8)).map(|block| block.offset).ok_or(refused)
    }
}
