//! The bitmaps of a slab, word by word: blocks that its owner has taken, and those that others have freed since.
//!
//! A block is live while its bit is set in the first and clear in the second. Only the slab's owner writes to the first
//! and clears bits of the second; any process sets bits of the second. Each change of a block's state is one store.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use super::atomics::{AtomicU64, compiler_fence};

/// Why a block was not freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotLive;

/// One word of each bitmap: 64 blocks.
#[derive(Clone, Copy)]
pub(crate) struct Words<'s> {
    pub(crate) used: &'s AtomicU64,
    pub(crate) freed: &'s AtomicU64,
}

impl Words<'_> {
    /// Returns the live blocks.
    #[inline(always)]
    pub(crate) fn live(self) -> u64 {
        // In this order: what the owner collects disappears from the second word last, and is not found live in
        // between. Acquired, so that the owner byte of a block that is seen live is seen too: it was stored before the
        // bit.
        let freed = self.freed.load(Acquire);
        self.used.load(Acquire) & !freed
    }

    /// Takes a block that was found free. The owner only. The store is the commit: what is stored in the block, or of
    /// it, comes after it.
    #[inline(always)]
    pub(crate) fn take(self, bit: u64) {
        self.used.store(self.used.load(Relaxed) | bit, Release);
        compiler_fence(SeqCst);
    }

    /// Frees a block. The owner only. The store is the commit.
    #[inline(always)]
    pub(crate) fn put_back(self, bit: u64) -> Result<(), NotLive> {
        let used = self.used.load(Relaxed);
        if used & bit == 0 || self.freed.load(Relaxed) & bit != 0 {
            return Err(NotLive);
        }
        self.used.store(used & !bit, Release);
        Ok(())
    }

    /// Frees a block of another process's slab. The `or` is the commit; it is ordered after the caller's use of the
    /// block.
    #[inline(always)]
    pub(crate) fn give(self, bit: u64) -> Result<(), NotLive> {
        if self.used.load(Relaxed) & bit == 0 || self.freed.fetch_or(bit, Release) & bit != 0 {
            return Err(NotLive);
        }
        Ok(())
    }

    /// Takes a block again, after the death of the process that took it: the slab has no living owner.
    pub(crate) fn take_again(self, bit: u64) {
        self.used.fetch_or(bit, Release);
    }

    /// Makes what others have freed free for the owner, which calls this. Returns the blocks that were live until they
    /// were freed. Those that `spared` returns, which is called after it was found what others freed, stay as they are.
    ///
    /// A block counts as freed until it is no longer used: killed in between, the owner leaves bits of the second word
    /// for blocks that are free, which the next owner clears.
    #[inline(always)]
    pub(crate) fn collect(self, spared: impl FnOnce() -> u64) -> u64 {
        let freed = self.freed.load(Acquire);
        if freed == 0 {
            return 0;
        }
        let freed = freed & !spared();
        let used = self.used.load(Relaxed);
        self.used.store(used & !freed, Release);
        self.freed.fetch_and(!freed, Release);
        used & freed
    }

    /// Returns the blocks that the owner may take.
    #[inline(always)]
    pub(crate) fn free(self) -> u64 {
        !(self.used.load(Relaxed) | self.freed.load(Acquire))
    }
}
