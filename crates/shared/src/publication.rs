//! The record of an operation that changes a word of the data together with the heap.
//!
//! Storing the end of its change commits both: before, the heap and the word are as they were; after, they will be as the
//! record says. [`Record`] can be pending at the same time, to undo what was begun; it counts only until this commits.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use heapwright_placement::Change;

use crate::record::Record;

/// The record as it lies in the header.
#[repr(C)]
pub(crate) struct Publication {
    record: Record,
    word: AtomicU64,
    value: AtomicU64,
}

/// What a word will contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Published {
    /// Where the word lies, in bytes from the segment's start.
    pub(crate) word: u64,
    /// The offset of a block, or 0.
    pub(crate) value: u64,
}

impl Published {
    /// Whether the word lies in `data..end`.
    pub(crate) fn is_plausible(self, data: usize, end: usize) -> bool {
        self.word.is_multiple_of(8) && (data as u64..end as u64).contains(&self.word)
    }
}

impl Publication {
    /// Notes both; commits by the last store.
    #[inline(always)]
    pub(crate) fn write(&self, change: Change, published: Published) {
        self.word.store(published.word, Relaxed);
        self.value.store(published.value, Relaxed);
        self.record.write(change);
    }

    /// Both are complete.
    #[inline(always)]
    pub(crate) fn clear(&self) {
        self.record.clear();
        self.word.store(0, Relaxed);
        self.value.store(0, Relaxed);
    }

    /// The change that is under way.
    pub(crate) fn change(&self) -> Option<Change> {
        self.record.read()
    }

    /// What is to be published while the change is under way.
    pub(crate) fn read(&self) -> Option<Published> {
        let published = Published { word: self.word.load(Relaxed), value: self.value.load(Relaxed) };
        self.record.is_pending().then_some(published)
    }
}
