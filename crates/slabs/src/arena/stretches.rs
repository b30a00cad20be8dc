//! Huge pages where a dense heap grows.
//!
//! A stretch is as long as a huge page. When a block is placed that begins one, behind everything that was placed
//! before, and the stretches below it are nearly full, it is backed by a huge page: the system needs an eighth of the
//! time for it that it needs for as many small ones. It is touched at once, and no other huge pages are asked for: what
//! is purged later is not backed again as a whole by the system of its own accord. The parts that are purged count as
//! gone at once, but the system has their memory only when the huge page is split, which upkeep does.
//!
//! A system may take longer for a huge page than for small ones: when it has to make room first, or when the memory is
//! taken back by the host of a virtual machine while it is free. Each one is timed therefore, and after one that took
//! too long, more and more stretches are left to small pages.

use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

use heapwright_os::{
    back_by_huge_page, forbid_huge_pages, huge_page_size, page_seems_written, resident_unless_filtered, split_huge_page,
};

use super::ARENA;
use crate::classes::{SLAB, size_of_class};
use crate::entry::{DISSOLVED, Entry};
use crate::scarcity;

/// The bytes of slabs and long blocks from which on huge pages are asked for: the untouched end of one is then a small
/// part of the heap.
const FROM: usize = 32 << 20;

/// The length of a stretch, in bytes. Where pages are longer than 4 KiB, huge pages have 32 or 512 MiB, and are not asked
/// for.
const STRETCH: usize = 2 << 20;

/// The part of the bytes in use that the longest block is which is backed at once. It may stay untouched.
const LONGEST_PART: usize = 16;

/// The part of the bytes in use that was placed last, in which the slabs of many classes are still filled.
const RECENT_PART: usize = 8;

/// A small page takes some 2 microseconds, of which a quarter is gained at least where a huge one takes less than this
/// for as much memory, in nanoseconds.
const QUICK: u64 = 800_000;

/// The stretches that are left to small pages, until the next is backed by a huge one.
static LEFT_SMALL: AtomicU32 = AtomicU32::new(0);

/// How many stretches are left to small pages after the next one that takes too long.
static NEXT_SMALL: AtomicU32 = AtomicU32::new(FEWEST_SMALL);
const FEWEST_SMALL: u32 = 8;
const MOST_SMALL: u32 = 512;

/// The stretches that were backed by huge pages and not split since, a bit each. Those of the first 256 GiB have one;
/// no others are backed.
static BACKED: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
const WORDS: usize = (256 << 30) / STRETCH / 64;

/// The bytes of a stretch in memory from which on it is not worth while to split it.
const NEARLY_ALL: usize = STRETCH / 8 * 7;

/// Where [`split_some`] goes on.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// Which part of the page heap was considered.
pub(super) struct Stretches {
    /// No stretch that begins below this address is considered again.
    seen: usize,
    /// Up to this address the system was asked for no huge pages.
    small_until: usize,
}

impl Stretches {
    pub(super) const NONE: Stretches = Stretches { seen: 0, small_until: 0 };

    /// Observes that the page heap reaches up to `end` before it grows.
    pub(super) fn observe_end(&mut self, end: usize) {
        self.seen = self.seen.min(end);
        self.small_until = self.small_until.min(end);
    }

    /// Observes that a block of `bytes` was placed, in a heap with `used` bytes that reaches up to `end`. Returns the
    /// stretches to be backed.
    pub(super) fn observe_placement(
        &mut self,
        block: NonNull<u8>,
        bytes: usize,
        used: usize,
        end: usize,
    ) -> Option<Stretch> {
        let length = huge_page_size();
        if used < FROM || length != STRETCH {
            return None;
        }
        if end > self.small_until {
            forbid_huge_pages(self.small_until.max(block.addr().get() & !(length - 1))..end);
            self.small_until = end;
        }
        let start = block.addr().get();
        let first = start.max(self.seen).next_multiple_of(length);
        let ends = (start + bytes).next_multiple_of(length).min(end & !(length - 1));
        if first >= ends {
            return None;
        }
        self.seen = ends;
        let first = block.map_addr(|start| start.saturating_add(first - start.get()));
        (bytes <= used / LONGEST_PART).then(|| Stretch {
            first,
            count: (ends - first.addr().get()) / length,
            full_below: first.addr().get() - used / RECENT_PART,
        })
    }
}

/// Stretches that begin in a new block.
#[must_use]
pub struct Stretch {
    first: NonNull<u8>,
    count: usize,
    /// The heap is to be dense below this address.
    full_below: usize,
}

// SAFETY: an address in memory that any thread may use which has been given the block.
unsafe impl Send for Stretch {}

impl Stretch {
    /// Backs them by huge pages, if the heap is dense below, and that is quick.
    ///
    /// # Safety
    /// The block is the caller's, and its contents are not needed or 0.
    #[cold]
    #[inline(never)]
    pub unsafe fn back(self) {
        if scarcity::purges_at_once() || self.is_left_small() || !is_dense_below(self.full_below) {
            return;
        }
        for number in 0..self.count {
            // SAFETY: the stretch begins in the block.
            let stretch = unsafe { self.first.add(number * STRETCH) };
            let Some(word) = word_of(stretch.addr().get()) else { return };
            word.0.fetch_or(word.1, Relaxed);
            // SAFETY: the caller promises that of the block.
            let duration = unsafe { back_by_huge_page(stretch) };
            if duration > QUICK {
                let next = NEXT_SMALL.load(Relaxed);
                LEFT_SMALL.store(next, Relaxed);
                NEXT_SMALL.store((2 * next).min(MOST_SMALL), Relaxed);
                return;
            }
        }
        NEXT_SMALL.store(FEWEST_SMALL, Relaxed);
    }

    /// Counts them as left to small pages, as long as others are to be.
    fn is_left_small(&self) -> bool {
        let left = LEFT_SMALL.load(Relaxed);
        LEFT_SMALL.store(left.saturating_sub(self.count as u32), Relaxed);
        left != 0
    }
}

/// Returns the word and the bit of the stretch at an address.
fn word_of(address: usize) -> Option<(&'static AtomicU64, u64)> {
    let number = address / STRETCH - ARENA.base().addr() / STRETCH;
    BACKED.get(number / 64).map(|word| (word, 1 << (number % 64)))
}

/// Returns the number of words that may have bits. The first stretch may begin before the pages.
fn words() -> usize {
    (ARENA.room() * SLAB / STRETCH + 1).div_ceil(64).min(WORDS)
}

/// Splits huge pages of which parts were purged: a few, and later calls go on. Bounded.
pub fn split_some() {
    /// Words that are looked at, and stretches that are asked for.
    const LOOKED_AT: usize = 64;
    const STRETCHES: usize = 16;
    let mut left = STRETCHES;
    for _ in 0..LOOKED_AT {
        let next = NEXT.load(Relaxed);
        left = left.saturating_sub(split_in(next));
        NEXT.store(if next + 1 < words() { next + 1 } else { 0 }, Relaxed);
        if left == 0 || words() <= 1 {
            break;
        }
    }
}

/// Splits all huge pages of which parts were purged.
pub fn split_all() {
    (0..words()).for_each(|word| _ = split_in(word));
}

/// Splits those of a word; returns how many it has looked at.
fn split_in(word: usize) -> usize {
    let mut bits = BACKED[word].load(Relaxed);
    let count = bits.count_ones() as usize;
    while bits != 0 {
        let bit = bits & bits.wrapping_neg();
        bits ^= bit;
        let number = ARENA.base().addr() / STRETCH + 64 * word + bit.trailing_zeros() as usize;
        let start = ARENA.base().with_addr(number * STRETCH);
        let Some(resident) = NonNull::new(start).and_then(|start| resident_unless_filtered(start, STRETCH)) else {
            continue;
        };
        if resident < NEARLY_ALL {
            BACKED[word].fetch_and(!bit, Relaxed);
            if resident != 0 {
                split_huge_page(start.addr());
            }
        }
    }
    count
}

/// Whether the two stretches below an address are nearly full: blocks of slabs that are out take up most of them, or
/// long blocks that were written to, and most pages are in memory. That of huge pages all of them are tells nothing.
fn is_dense_below(end: usize) -> bool {
    const LOOKED_AT: u32 = 2 * (STRETCH / SLAB) as u32;
    let Some(last) = ARENA.number_of(end).filter(|&last| last >= LOOKED_AT) else { return false };
    let below = last - LOOKED_AT..last;
    let length = LOOKED_AT as usize * SLAB;
    let most = length / 4 * 3;
    let Some(start) = NonNull::new(ARENA.start_of(below.start)) else { return false };
    resident_unless_filtered(start, length).is_some_and(|resident| resident >= most)
        && below.map(bytes_used).sum::<usize>() >= most
}

/// Returns the bytes of the blocks of a slab that are out, or of as much of a long block if that seems written.
fn bytes_used(number: u32) -> usize {
    match ARENA.entry(number) {
        Entry::NONE => {
            NonNull::new(ARENA.start_of(number)).map_or(0, |start| if page_seems_written(start) { SLAB } else { 0 })
        }
        entry if entry.class() == DISSOLVED => 0,
        entry => ARENA.blocks_out(number).count() as usize * size_of_class(entry.class()),
    }
}
