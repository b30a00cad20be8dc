//! The tenancy of a heap: which thread has it.

use core::cell::Cell;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

/// The thread that has a heap. It is used behind the arena's lock only, except by [`Tenancy::is_idle`].
pub(crate) struct Tenancy {
    /// The system's number of the heap's thread, or [`IDLE`]; 0 for a heap without a thread that cannot be adopted:
    /// another thread flushes it, or it is unusable in a fork's child.
    pub(super) thread: AtomicU32,
    /// The [`Registry::generation`](crate::arena::Registry) in which the thread adopted the heap.
    pub(super) generation: Cell<u32>,
    pub(super) next_idle: Cell<u32>,
    pub(super) previous_idle: Cell<u32>,
    /// What became of the heap's idle pages when it was abandoned last.
    pub(super) pages: Cell<Pages>,
}

/// What became of the idle pages of a heap whose thread has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// They wait for the next thread.
    Kept,
    /// They were purged.
    Purged,
}

/// No thread's number.
pub(super) const IDLE: u32 = u32::MAX;

impl Tenancy {
    /// The tenancy of a heap without a thread.
    pub(crate) const fn new() -> Tenancy {
        Tenancy {
            thread: AtomicU32::new(0),
            generation: Cell::new(0),
            next_idle: Cell::new(0),
            previous_idle: Cell::new(0),
            pages: Cell::new(Pages::Kept),
        }
    }

    /// Returns whether the heap is idle. Approximate when read without the arena's lock.
    pub(crate) fn is_idle(&self) -> bool {
        self.thread.load(Relaxed) == IDLE
    }
}
