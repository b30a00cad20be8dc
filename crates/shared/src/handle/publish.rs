//! Blocks that appear in a word of the segment, or disappear from it, in the same step as they are allocated or freed.
//!
//! A process that is killed between an allocation and the store that makes the block known leaks the block. Here both
//! are one: wherever the process is killed, the survivors find both done or neither.

use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use heapwright_placement::{AllocateError, Change, Noted};

use crate::format::bitmap::NotLive;
use crate::format::process_slot::ProcessSlot;
use crate::format::publication::Published;
use crate::format::slab::SlabCounts;
use crate::handle::heap::{Section, SharedHeap};
use crate::handle::operate::refused_free;
use crate::slabs::owned::Owned;
use crate::slabs::owned_class::{FreeBlock, Outcome};
use crate::slabs::parts::{Small, used_block};
use crate::terms::error::Error;
use crate::terms::offset::{Offset, Relocatable};

/// A word of a used block that contains the offset of a block, or 0.
type Link = Offset<Option<Offset>>;

impl SharedHeap {
    /// Allocates a block of `bytes`, has `fill` fill it, and stores its offset in `word`: all or nothing, wherever the
    /// process is killed.
    ///
    /// `fill` gets the block's address and what `word` contained. It runs under the heap's lock: it should be short,
    /// and must not use the heap. Other threads and processes change the word only by this, [`SharedHeap::resize_into`]
    /// and [`SharedHeap::free_from`]; they may read it at any time, by [`SharedHeap::load_word`].
    ///
    /// ```
    /// use heapwright_shared::{Offset, Place, Settings, SharedHeap};
    /// # let place = Place::new(format!("heapwright-doc-into-{}", std::process::id()))?;
    /// # let heap = SharedHeap::create(&place, &Settings::default())?;
    /// let head: Offset<Option<Offset>> = heap.allocate_value(None)?;
    /// heap.set_root("list", head.cast())?;
    /// // Pushes a node whose first word is the link to the next one.
    /// let push = |node: std::ptr::NonNull<u8>, next: Option<Offset>| {
    ///     // SAFETY: the block is as long, and no other process has its offset yet.
    ///     unsafe { node.cast::<[u64; 2]>().write([next.map_or(0, Offset::get), 42]) };
    /// };
    /// // SAFETY: the head of the list is such a word, and stays.
    /// let node = unsafe { heap.allocate_into(head, 16, push) }?;
    /// // SAFETY: as above.
    /// assert_eq!(unsafe { heap.load_word(head) }, Some(node));
    /// # SharedHeap::unlink(&place)?;
    /// # Ok::<(), heapwright_shared::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NotAWord`]; and as [`SharedHeap::allocate`]. Nothing has changed then.
    ///
    /// # Safety
    /// The eight bytes at `word` serve as such a word only, and until this returns no other thread of any process frees
    /// or resizes the block in which they lie.
    pub unsafe fn allocate_into(
        &self,
        word: Link,
        bytes: usize,
        fill: impl FnOnce(NonNull<u8>, Option<Offset>),
    ) -> Result<Offset, Error> {
        // SAFETY: the caller's promise.
        unsafe { self.allocate_aligned_into(word, bytes, 1, fill) }
    }

    /// As [`SharedHeap::allocate_into`], for a block that contains the value that `make` returns. `make` gets what
    /// `word` contained: the next node of a list, for instance.
    ///
    /// # Errors
    /// As [`SharedHeap::allocate_into`] and [`SharedHeap::allocate_aligned`].
    ///
    /// # Safety
    /// As [`SharedHeap::allocate_into`].
    pub unsafe fn allocate_value_into<T: Relocatable>(
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
        // SAFETY: the caller's promise.
        Ok(unsafe { self.allocate_aligned_into(word.cast(), size_of::<T>(), align, fill) }?.cast())
    }

    /// Returns what `word` contains, which other threads may change meanwhile.
    ///
    /// # Safety
    /// A word that serves [`SharedHeap::allocate_into`] and its like only lies there, in a block that no thread of any
    /// process frees or resizes until this returns.
    #[must_use]
    pub unsafe fn load_word(&self, word: Link) -> Option<Offset> {
        // SAFETY: as this function requires; such words are used through atomics.
        let word = unsafe { self.pointer(word).cast::<AtomicU64>().as_ref() };
        Offset::new(word.load(Acquire))
    }

    /// # Safety
    /// As [`SharedHeap::allocate_into`].
    unsafe fn allocate_aligned_into(
        &self,
        word: Link,
        bytes: usize,
        align: usize,
        fill: impl FnOnce(NonNull<u8>, Option<Offset>),
    ) -> Result<Offset, Error> {
        let mut fill = Some(fill);
        let mut fill = |block: NonNull<u8>, old: Option<Offset>| {
            if let Some(fill) = fill.take() {
                fill(block, old);
            }
        };
        self.publish_by(|publisher| publisher.allocate_into(word, bytes, align, &mut fill))
    }

    /// Makes the block whose offset `word` contains hold `bytes`, where it is or, with its contents, elsewhere; `word`
    /// then contains its new offset. Wherever the process is killed, the block is at one place, and `word` shows it.
    /// Returns where it is.
    ///
    /// Contents are copied under the heap's lock.
    ///
    /// # Errors
    /// [`Error::NotAWord`], also for a word in the block itself; [`Error::NotABlock`] or [`Error::AlreadyFree`] when
    /// `word` contains no block's offset; and as [`SharedHeap::allocate_into`]. Nothing has changed then.
    ///
    /// # Safety
    /// As [`SharedHeap::allocate_into`]; and until this returns, no other thread of any process frees or resizes the
    /// block that the word shows, or writes to it.
    pub unsafe fn resize_into(&self, word: Link, bytes: usize) -> Result<Offset, Error> {
        // SAFETY: the caller's promise.
        self.publish_by(|publisher| unsafe { publisher.resize_into(word, bytes) })
    }

    /// Frees the block whose offset `word` contains, and stores in `word` what `next` returns, as one step. Returns the
    /// block's offset; `None`, and does nothing, if `word` contains 0.
    ///
    /// `next` gets the block's address, for the link to the next block of a list or a last look at its contents; `|_|
    /// None` empties the word. It runs under the heap's lock, as `fill` of [`SharedHeap::allocate_into`].
    ///
    /// # Errors
    /// [`Error::NotAWord`], also for a word in the block itself; and as [`SharedHeap::deallocate`].
    ///
    /// # Safety
    /// As [`SharedHeap::allocate_into`].
    pub unsafe fn free_from(
        &self,
        word: Link,
        next: impl FnOnce(NonNull<u8>) -> Option<Offset>,
    ) -> Result<Option<Offset>, Error> {
        let mut next = Some(next);
        self.publish_by(|publisher| match next.take() {
            Some(next) => publisher.free_from(word, next),
            None => Ok(None),
        })
    }

    /// Does `work` under the lock; once more if the heap was full, and slabs had something that they do not need.
    fn publish_by<R>(&self, mut work: impl FnMut(&mut Publisher<'_, '_>) -> Result<R, Error>) -> Result<R, Error> {
        let mut attempt = || {
            self.attached()?;
            let mut owned = if self.mapping.layout.shape.is_some() { self.lane.enter() } else { None };
            let section = self.enter()?;
            let mut publisher = Publisher { section, owned: owned.as_deref_mut() };
            let done = work(&mut publisher);
            self.lane.set_reach(publisher.section.heap_size());
            done
        };
        match attempt() {
            Err(Error::Full { .. } | Error::NoSpace { .. }) if self.tidy_slabs()? => attempt(),
            done => done,
        }
    }
}

/// The critical section, and this process's slabs unless another thread works on them: blocks are the engine's then.
struct Publisher<'h, 'o> {
    section: Section<'h>,
    owned: Option<&'o mut Owned>,
}

/// The block that a word shows.
struct Linked<'h> {
    offset: Offset,
    place: usize,
    size: usize,
    /// Where it lies if it is a slab's.
    small: Option<Small<'h>>,
}

/// A block that no word shows yet.
struct Unlinked {
    offset: Offset,
    /// If it is a slab's: its class, and what makes it live. If it is the engine's, its undoing is on record.
    small: Option<(usize, FreeBlock)>,
}

impl<'h> Publisher<'h, '_> {
    fn allocate_into(
        &mut self,
        word: Link,
        bytes: usize,
        align: usize,
        fill: &mut impl FnMut(NonNull<u8>, Option<Offset>),
    ) -> Result<Offset, Error> {
        self.require_word(word)?;
        let mapping = self.section.mapping();
        let old = Offset::new(mapping.word(word.get()).load(Acquire));
        let Some(new) = self.choose_small(bytes, align)? else {
            return self.section.allocate_into(word, bytes, align, |block| fill(block, old));
        };
        // Nothing is on record meanwhile: the block is free, and the caller's own.
        // SAFETY: the block lies in a slab of this process, within the segment.
        fill(unsafe { mapping.base().add(new.offset.get() as usize) }, old);
        let published = new.published_in(word);
        mapping.header().publication.write(published);
        self.take(&new);
        self.section.publish(published);
        Ok(new.offset)
    }

    /// # Safety
    /// As [`SharedHeap::resize_into`].
    unsafe fn resize_into(&mut self, word: Link, bytes: usize) -> Result<Offset, Error> {
        let old = self.linked(word)?.ok_or(Error::NotABlock { offset: 0 })?;
        match old.small {
            Some(_) if bytes <= old.size => return Ok(old.offset),
            Some(_) => {}
            None => match self.section.resize(old.offset, bytes) {
                Err(Error::NoRoom { .. }) => {}
                resized => return resized.map(|()| old.offset),
            },
        }
        let new = match self.choose_small(bytes, 1)? {
            Some(new) => new,
            None => Unlinked { offset: self.section.place_unlinked(bytes)?, small: None },
        };
        // SAFETY: no word shows the new block yet, and nothing writes to the old one, as the caller promises.
        unsafe { self.section.mapping().copy_block(old.offset, new.offset, old.size.min(bytes)) };
        let published = new.published_in(word);
        self.release_and_publish(&old, published, Some(&new))?;
        Ok(new.offset)
    }

    fn free_from(
        &mut self,
        word: Link,
        next: impl FnOnce(NonNull<u8>) -> Option<Offset>,
    ) -> Result<Option<Offset>, Error> {
        let Some(block) = self.linked(word)? else { return Ok(None) };
        // SAFETY: a used block starts there, so it lies within the segment.
        let next = next(unsafe { self.section.mapping().base().add(block.offset.get() as usize) });
        self.release_and_publish(&block, Published::of(word.get(), next), None)?;
        Ok(Some(block.offset))
    }

    /// Returns a free block of this process's slabs, with its owner, for `bytes`; `None` if the engine is to place one.
    fn choose_small(&mut self, bytes: usize, align: usize) -> Result<Option<Unlinked>, Error> {
        let Some(owned) = self.owned.as_deref_mut() else { return Ok(None) };
        let Some((class, free)) = self.section.choose_small(owned, bytes, align)? else { return Ok(None) };
        // It means nothing until the block is live.
        free.set_owner(self.section.view().slot);
        Ok(Some(Unlinked { offset: self.section.mapping().offset_at(free.place), small: Some((class, free)) }))
    }

    /// Makes a block of a slab live, which is on record.
    fn take(&mut self, new: &Unlinked) {
        let Some((class, free)) = &new.small else { return };
        free.take();
        if let Some(owned) = self.owned.as_deref_mut() {
            owned.count_taken(*class, free);
        }
    }

    /// Frees `old` and stores a value in a word: that of `new`, if there is one, which then is a block of its own.
    fn release_and_publish(
        &mut self,
        old: &Linked<'h>,
        published: Published,
        new: Option<&Unlinked>,
    ) -> Result<(), Error> {
        let Some(small) = old.small else {
            let owner = self.section.begin_release(old, published)?;
            new.into_iter().for_each(|new| self.take(new));
            self.section.publish(published);
            self.section.mapping().count_of(owner, ProcessSlot::lose_block);
            return Ok(());
        };
        let published = Published { freed: old.offset.get(), ..published };
        let (mapping, slot) = (self.section.mapping(), self.section.view().slot);
        mapping.header().publication.write(published);
        new.into_iter().for_each(|new| self.take(new));
        // Looked up again: making room for the new block may have adopted the slab.
        let is_ours = small.slab.tenure().is_some_and(|tenure| tenure.slot == slot);
        let freed = match self.owned.as_deref_mut().filter(|_| is_ours) {
            Some(owned) => owned.classes[small.class()]
                .put_back(small.slab, small.unit, small.index)
                .inspect(|_| mapping.count_of_slabs(slot, SlabCounts::count_freed)),
            None => small.give(mapping, slot).map(|()| Outcome::Kept),
        };
        self.section.publish(published);
        if let (Ok(Outcome::Spare), Some(owned)) = (freed, self.owned.as_deref_mut())
            && self.section.end_slab(small.unit)?
        {
            owned.classes[small.class()].remove(mapping, small.unit);
        }
        // Another thread has freed it, against the rules.
        freed.map(drop).map_err(|NotLive| Error::AlreadyFree { offset: old.offset.get() })
    }

    /// Returns the used block whose offset `word` contains, apart from the block that `word` lies in.
    fn linked(&mut self, word: Link) -> Result<Option<Linked<'h>>, Error> {
        let around = self.require_word(word)?;
        let mapping = self.section.mapping();
        let Some(offset) = Offset::new(mapping.word(word.get()).load(Acquire)) else { return Ok(None) };
        let (place, size) = self.section.block_at(offset)?;
        if place == around {
            return Err(Error::NotAWord { offset: word.get() });
        }
        let small = Small::at(mapping, place).map_err(|NotLive| Error::NotABlock { offset: offset.get() })?;
        Ok(Some(Linked { offset, place, size, small }))
    }

    /// Returns the place of the used block in which `word` lies.
    fn require_word(&mut self, word: Link) -> Result<usize, Error> {
        let refused = Error::NotAWord { offset: word.get() };
        let place = self.section.place_of(word.cast()).map_err(|_| refused.clone())?;
        let around = used_block(self.section.mapping(), self.section.engine(), place);
        around.filter(|_| place.is_multiple_of(8)).map(|block| block.offset).ok_or(refused)
    }
}

impl Unlinked {
    /// Returns what is on record while `word` comes to show the block.
    fn published_in(&self, word: Link) -> Published {
        let taken = if self.small.is_some() { self.offset.get() } else { 0 };
        Published { taken, ..Published::of(word.get(), Some(self.offset)) }
    }
}

impl Section<'_> {
    /// Allocates a block of the engine, has it filled, and shows it in `word`.
    fn allocate_into(
        &mut self,
        word: Link,
        bytes: usize,
        align: usize,
        mut fill: impl FnMut(NonNull<u8>),
    ) -> Result<Offset, Error> {
        let (mapping, record, slot) = (self.mapping(), self.record(), self.view().slot);
        let mut published = Published::of(word.get(), None);
        let place = self.place_with(bytes, align, |change| {
            let block = (mapping.layout.data + change.used_start) as u64;
            // A panic of the caller's code, or a kill in it, undoes what the engine may have prepared.
            record.write(change.undone());
            // SAFETY: the engine has chosen the block, within the segment; no process has it yet.
            fill(unsafe { mapping.base().add(block as usize) });
            if let Some(owner) = mapping.owner(change.used_start) {
                owner.store(slot, Relaxed);
            }
            mapping.count_of(slot, ProcessSlot::gain_block);
            published = Published { change: Some(change), value: block, ..published };
            mapping.header().publication.write(published);
        })?;
        self.publish(published);
        Ok(self.mapping().offset_at(place))
    }

    /// Allocates a block of the engine. Its undoing stays on record until a publication commits: a new block that no
    /// word shows is given back.
    fn place_unlinked(&mut self, bytes: usize) -> Result<Offset, Error> {
        let (mapping, record, slot) = (self.mapping(), self.record(), self.view().slot);
        let place = self.place_with(bytes, 1, |change| record.write(change.undone()))?;
        if let Some(owner) = mapping.owner(place) {
            owner.store(slot, Relaxed);
        }
        mapping.count_of(slot, ProcessSlot::gain_block);
        Ok(self.mapping().offset_at(place))
    }

    /// Frees a block of the engine while `published` is on record. Returns the number of its owner.
    fn begin_release(&mut self, block: &Linked<'_>, published: Published) -> Result<u8, Error> {
        let (mapping, record) = (self.mapping(), self.record());
        let owner = mapping.owner_of(block.place);
        let note = |change: Change| {
            mapping.header().publication.write(Published { change: Some(change), ..published });
            // From here on only for the end of the section, which looks at it alone.
            record.write(change);
        };
        self.engine().deallocate_noted(block.place, note).map_err(|refused| refused_free(refused, block.offset))?;
        Ok(owner)
    }

    /// Stores a value in a word, the last store of an operation.
    fn publish(&mut self, published: Published) {
        self.mapping().publish(published);
        self.mapping().header().clear_pending();
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
}
