//! The record of an operation that changes a word of the data together with the heap.
//!
//! Storing the end of its change commits all of it: before, the heap and the word are as they were; after, they will be
//! as the record says. [`Record`] can be pending at the same time, to undo what was begun; it counts only until this
//! commits.

use std::sync::atomic::Ordering::Relaxed;

use heapwright_placement::Change;

use super::atomics::AtomicU64;
use super::record::Record;
use crate::terms::offset::Offset;

/// The end of the change on record while the engine's blocks stay as they are. No region is that long.
const NO_CHANGE: usize = usize::MAX;

/// The record as it lies in the header.
#[cfg_attr(test, derive(Default))]
#[repr(C)]
pub(crate) struct Publication {
    record: Record,
    word: AtomicU64,
    value: AtomicU64,
    taken: AtomicU64,
    freed: AtomicU64,
}

/// What an operation will have made of a word and of the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Published {
    /// What becomes of the engine's blocks, if anything does.
    pub(crate) change: Option<Change>,
    /// Where the word lies, in bytes from the segment's start.
    pub(crate) word: u64,
    /// What the word will contain: the offset of a block, or 0.
    pub(crate) value: u64,
    /// The offset of a block of a slab that will be live, or 0. The slab belongs to the process that publishes.
    pub(crate) taken: u64,
    /// The offset of a block of a slab that will be free, or 0. The slab may belong to any process.
    pub(crate) freed: u64,
}

impl Published {
    /// Returns a word that will contain the offset of `block`, or 0, while all else stays as it is.
    pub(crate) fn of(word: u64, block: Option<Offset>) -> Published {
        Published { change: None, word, value: block.map_or(0, Offset::get), taken: 0, freed: 0 }
    }

    /// Returns whether the word lies in `data..end`.
    pub(crate) fn is_plausible(self, data: usize, end: usize) -> bool {
        self.word.is_multiple_of(8) && (data as u64..end as u64).contains(&self.word)
    }
}

impl Publication {
    /// Notes all of it; commits by the last store.
    #[inline(always)]
    pub(crate) fn write(&self, published: Published) {
        self.word.store(published.word, Relaxed);
        self.value.store(published.value, Relaxed);
        self.taken.store(published.taken, Relaxed);
        self.freed.store(published.freed, Relaxed);
        let none = Change { start: 0, end: NO_CHANGE, used_start: 0, used_end: 0 };
        self.record.write(published.change.unwrap_or(none));
    }

    /// All is complete. The block that was freed may be used again once this is no longer pending: see
    /// [`Publication::freed`].
    #[inline(always)]
    pub(crate) fn clear(&self) {
        self.record.clear();
        self.word.store(0, Relaxed);
        self.value.store(0, Relaxed);
        self.taken.store(0, Relaxed);
        self.freed.store(0, Relaxed);
    }

    /// Returns the offset of the block of a slab whose free may be done again by recovery, or 0.
    ///
    /// The slab's owner, which does not take the lock, reads this after it has found the block freed, and leaves it
    /// alone meanwhile: freed once more after it was taken, the block would be lost to the process that has it then.
    #[inline(always)]
    pub(crate) fn freed(&self) -> u64 {
        self.freed.load(Relaxed)
    }

    /// Returns what is under way.
    pub(crate) fn read(&self) -> Option<Published> {
        let change = self.record.read()?;
        Some(Published {
            change: Some(change).filter(|change| change.end != NO_CHANGE),
            word: self.word.load(Relaxed),
            value: self.value.load(Relaxed),
            taken: self.taken.load(Relaxed),
            freed: self.freed.load(Relaxed),
        })
    }
}
