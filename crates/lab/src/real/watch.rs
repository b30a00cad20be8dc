//! How a run is watched: not at all, for its time, or call by call.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;

use super::histogram::Histogram;
use crate::bench::clock::ticks;
use crate::bench::lazy::Lazy;

/// Kinds of calls that are told apart, as indices of histograms.
pub const ALLOCATE: usize = 0;
pub const RESIZE: usize = 1;
pub const FREE: usize = 2;

/// Something that sees every call.
pub trait Watch {
    /// Lets one call of the allocator happen.
    fn call<R>(&mut self, kind: usize, call: impl FnOnce() -> R) -> R;

    /// A block has come.
    fn came(&mut self, block: *mut u8);

    /// A block will go.
    fn goes(&mut self, block: *mut u8);
}

/// Sees nothing, and costs nothing.
pub struct Blind;

impl Watch for Blind {
    #[inline(always)]
    fn call<R>(&mut self, _: usize, call: impl FnOnce() -> R) -> R {
        call()
    }

    #[inline(always)]
    fn came(&mut self, _: *mut u8) {}

    #[inline(always)]
    fn goes(&mut self, _: *mut u8) {}
}

/// Times every call by itself.
pub struct Each<'a> {
    /// Of allocations, resizes and frees.
    pub histograms: Lazy<Histogram>,
    /// For glibc's malloc only.
    glibc: Option<&'a Glibc>,
}

impl<'a> Each<'a> {
    /// Has seen nothing.
    pub fn new(glibc: Option<&'a Glibc>) -> Result<Each<'a>> {
        Ok(Each { histograms: Lazy::committed(3)?, glibc })
    }
}

impl Watch for Each<'_> {
    #[inline(always)]
    fn call<R>(&mut self, kind: usize, call: impl FnOnce() -> R) -> R {
        let before = ticks();
        let result = call();
        let gap = ticks() - before;
        self.histograms[kind].record(gap);
        result
    }

    #[inline(always)]
    fn came(&mut self, block: *mut u8) {
        if let Some(glibc) = self.glibc {
            glibc.came(block);
        }
    }

    #[inline(always)]
    fn goes(&mut self, block: *mut u8) {
        if let Some(glibc) = self.glibc {
            glibc.goes(block);
        }
    }
}

/// The memory that glibc's malloc has from the system: what lies below the program break, and the blocks that are
/// mappings of their own, as the words in front of them tell.
pub struct Glibc {
    start_of_break: u64,
    mapped: AtomicU64,
    peak: AtomicU64,
}

impl Glibc {
    /// Begins to watch.
    pub fn new(start_of_break: u64) -> Glibc {
        Glibc { start_of_break, mapped: AtomicU64::new(0), peak: AtomicU64::new(0) }
    }

    /// The most that it had, in bytes.
    pub fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    fn came(&self, block: *mut u8) {
        let mapping = mapping_of(block);
        let mapped = self.mapped.fetch_add(mapping, Ordering::Relaxed) + mapping;
        // SAFETY: sbrk(0) moves nothing; glibc answers it without a system call.
        let end = unsafe { libc::sbrk(0) }.addr() as u64;
        self.peak.fetch_max(mapped + end.saturating_sub(self.start_of_break), Ordering::Relaxed);
    }

    fn goes(&self, block: *mut u8) {
        self.mapped.fetch_sub(mapping_of(block), Ordering::Relaxed);
    }
}

/// How long the mapping is that holds this block alone; 0 when there is none. glibc keeps in front of each block its
/// length with flags in the lowest bits, and for mappings of their own, before that, how far into the mapping it begins.
fn mapping_of(block: *mut u8) -> u64 {
    const IS_MAPPED: u64 = 2;
    const FLAGS: u64 = 7;
    // SAFETY: the block is one of glibc's malloc, which has these two words in front of every block.
    let (before, length) = unsafe { (block.cast::<u64>().sub(2).read(), block.cast::<u64>().sub(1).read()) };
    if length & IS_MAPPED == 0 { 0 } else { (length & !FLAGS) + before }
}
