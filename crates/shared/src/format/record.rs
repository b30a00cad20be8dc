//! The redo record: what the operation under way will have made of the heap.
//!
//! It is written when an operation has decided and read everything, before its first store to what is primary, and
//! cleared after its last. A killed process leaves a prefix of its stores, in the order in which the compiler put them;
//! that order is held by compiler fences. Other processes read them only after they have taken the lock from the dead
//! one, which the system orders after all that the dead one did. Therefore no fence of the processor is needed.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use heapwright_placement::Change;

use super::atomics::{AtomicU64, compiler_fence};

/// The record as it lies in the header; empty while `end` is 0, which no change ends at.
#[cfg_attr(test, derive(Default))]
#[repr(C)]
pub(crate) struct Record {
    start: AtomicU64,
    used_start: AtomicU64,
    used_end: AtomicU64,
    end: AtomicU64,
}

impl Record {
    /// Notes `change`. The store of `end` commits it: before, the record is empty and the heap as it was; after, the
    /// heap will be as `change` says, whatever happens.
    #[inline(always)]
    pub(crate) fn write(&self, change: Change) {
        compiler_fence(SeqCst);
        self.start.store(change.start as u64, Relaxed);
        self.used_start.store(change.used_start as u64, Relaxed);
        self.used_end.store(change.used_end as u64, Relaxed);
        compiler_fence(SeqCst);
        self.end.store(change.end as u64, Relaxed);
        compiler_fence(SeqCst);
    }

    /// The operation is complete. Everything that it stored is stored before.
    #[inline(always)]
    pub(crate) fn clear(&self) {
        compiler_fence(SeqCst);
        self.end.store(0, Relaxed);
        compiler_fence(SeqCst);
    }

    /// Returns whether an operation is under way.
    #[inline(always)]
    pub(crate) fn is_pending(&self) -> bool {
        self.end.load(Relaxed) != 0
    }

    /// Returns the change that is under way.
    pub(crate) fn read(&self) -> Option<Change> {
        self.is_pending().then(|| Change {
            start: self.start.load(Relaxed) as usize,
            end: self.end.load(Relaxed) as usize,
            used_start: self.used_start.load(Relaxed) as usize,
            used_end: self.used_end.load(Relaxed) as usize,
        })
    }
}
