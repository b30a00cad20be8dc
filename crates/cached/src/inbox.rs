//! Blocks that other threads have freed, on their way to the heap that owns them.

use core::ptr::null_mut;
use core::sync::atomic::Ordering;

use crate::links::Chain;
use crate::world::AtomicPtr;

/// A stack that anyone adds chains to and that its owner takes as a whole, so that no thread ever takes what another is
/// looking at.
#[repr(align(64))]
pub(crate) struct Inbox {
    first: AtomicPtr<u8>,
}

impl Inbox {
    #[cfg(not(all(loom, test)))]
    pub(crate) const fn new() -> Inbox {
        Inbox { first: AtomicPtr::new(null_mut()) }
    }

    #[cfg(all(loom, test))]
    pub(crate) fn new() -> Inbox {
        Inbox { first: AtomicPtr::new(null_mut()) }
    }

    /// Whether something has come.
    #[inline(always)]
    pub(crate) fn is_loaded(&self) -> bool {
        !self.first.load(Ordering::Relaxed).is_null()
    }

    /// The block that came last; null for none. Where it leads stays as it is until the owner takes all.
    pub(crate) fn first(&self) -> *mut u8 {
        self.first.load(Ordering::Acquire)
    }

    /// Adds a chain that is not empty.
    ///
    /// # Safety
    /// Its blocks are free and in no other list.
    pub(crate) unsafe fn add(&self, chain: &Chain) {
        let mut first = self.first.load(Ordering::Relaxed);
        loop {
            // SAFETY: the caller's promise.
            unsafe { chain.end.link(chain.last, first) };
            match self.first.compare_exchange_weak(first, chain.first, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }

    /// Takes all that has come: the first of a list.
    pub(crate) fn take(&self) -> *mut u8 {
        self.first.swap(null_mut(), Ordering::Acquire)
    }
}
