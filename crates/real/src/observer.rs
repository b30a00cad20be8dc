//! Observers of the allocator's calls: one that does nothing, and one that times each call.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use heapwright_host::memory::program_break;

use super::histogram::Histogram;
use heapwright_host::clock::ticks;
use heapwright_host::lazy::Lazy;

/// Kinds of calls, as indices of histograms.
pub const ALLOCATE: usize = 0;
pub const RESIZE: usize = 1;
pub const FREE: usize = 2;

/// Observes every call.
pub trait Observer {
    /// Makes one call of the allocator.
    fn call<R>(&mut self, kind: usize, call: impl FnOnce() -> R) -> R;

    /// Records that a block was allocated.
    fn allocated(&mut self, block: *mut u8);

    /// Records that a block is about to be freed.
    fn freeing(&mut self, block: *mut u8);

    /// Returns the usable bytes of the blocks that were allocated less those of the blocks that were freed. Of several
    /// threads the sum has a meaning. `None` when they are not added up.
    fn usable(&self) -> Option<i64>;
}

/// Does nothing, at no cost.
pub struct Untimed;

impl Observer for Untimed {
    #[inline(always)]
    fn call<R>(&mut self, _: usize, call: impl FnOnce() -> R) -> R {
        call()
    }

    #[inline(always)]
    fn allocated(&mut self, _: *mut u8) {}

    #[inline(always)]
    fn freeing(&mut self, _: *mut u8) {}

    fn usable(&self) -> Option<i64> {
        None
    }
}

/// Times every call.
pub struct Timed<'a> {
    /// Of allocations, resizes and frees.
    pub histograms: Lazy<Histogram>,
    /// For glibc's malloc only.
    glibc: Option<&'a Glibc>,
    /// For verification only.
    usable: Option<Usable>,
}

/// Adds up the usable bytes of blocks.
pub struct Usable {
    size_of: unsafe extern "C" fn(*mut u8) -> usize,
    bytes: i64,
}

impl Usable {
    /// Returns an empty sum over the blocks of the malloc whose function this is.
    pub fn new(size_of: unsafe extern "C" fn(*mut u8) -> usize) -> Usable {
        Usable { size_of, bytes: 0 }
    }

    fn size_of(&self, block: *mut u8) -> i64 {
        // SAFETY: the observed block is live and was allocated by the malloc whose function this is.
        unsafe { (self.size_of)(block) as i64 }
    }
}

impl<'a> Timed<'a> {
    /// Returns an observer with empty histograms.
    pub fn new(glibc: Option<&'a Glibc>, usable: Option<Usable>) -> Result<Timed<'a>> {
        Ok(Timed { histograms: Lazy::committed(3)?, glibc, usable })
    }
}

impl Observer for Timed<'_> {
    #[inline(always)]
    fn call<R>(&mut self, kind: usize, call: impl FnOnce() -> R) -> R {
        let before = ticks();
        let result = call();
        let gap = ticks() - before;
        self.histograms[kind].record(gap);
        result
    }

    #[inline(always)]
    fn allocated(&mut self, block: *mut u8) {
        if let Some(glibc) = self.glibc {
            glibc.allocated(block);
        }
        if let Some(usable) = &mut self.usable {
            usable.bytes += usable.size_of(block);
        }
    }

    #[inline(always)]
    fn freeing(&mut self, block: *mut u8) {
        if let Some(glibc) = self.glibc {
            glibc.freeing(block);
        }
        if let Some(usable) = &mut self.usable {
            usable.bytes -= usable.size_of(block);
        }
    }

    fn usable(&self) -> Option<i64> {
        self.usable.as_ref().map(|usable| usable.bytes)
    }
}

/// Measures the memory that glibc's malloc has from the system: the memory below the program break, and the blocks with
/// a mapping of their own, which their headers identify.
pub struct Glibc {
    start_of_break: u64,
    mapped: AtomicU64,
    peak: AtomicU64,
}

impl Glibc {
    /// Starts at the given program break.
    pub fn new(start_of_break: u64) -> Glibc {
        Glibc { start_of_break, mapped: AtomicU64::new(0), peak: AtomicU64::new(0) }
    }

    /// Returns the peak, in bytes.
    pub fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    fn allocated(&self, block: *mut u8) {
        let mapping = mapping_of(block);
        let mapped = self.mapped.fetch_add(mapping, Ordering::Relaxed) + mapping;
        let end = program_break();
        self.peak.fetch_max(mapped + end.saturating_sub(self.start_of_break), Ordering::Relaxed);
    }

    fn freeing(&self, block: *mut u8) {
        self.mapped.fetch_sub(mapping_of(block), Ordering::Relaxed);
    }
}

/// Returns the length of the mapping that holds only this block; 0 when there is none. glibc keeps the length of each
/// block in front of it, with flags in the lowest bits. For a block with a mapping of its own, the word before that is
/// its offset in the mapping.
fn mapping_of(block: *mut u8) -> u64 {
    const IS_MAPPED: u64 = 2;
    const FLAGS: u64 = 7;
    // SAFETY: the block is one of glibc's malloc, which has these two words in front of every block.
    let (before, length) = unsafe { (block.cast::<u64>().sub(2).read(), block.cast::<u64>().sub(1).read()) };
    if length & IS_MAPPED == 0 { 0 } else { (length & !FLAGS) + before }
}
