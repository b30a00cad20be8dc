//! Dissolved slabs: the few blocks that are left in a slab stay where they are, and the holes between them serve every
//! class up to 8 KiB.
//!
//! A slab of one class keeps the pages of its survivors, whatever the program asks for next. A dissolved one is managed
//! by the grain of 16 bytes instead. Two bitmaps, apart from the slab, have a bit for each grain: whether it is out,
//! and whether a block or a hole begins there. Blocks of all lengths lie side by side, and a free needs no header.
//! Dissolving moves nothing.
//!
//! Blocks are carved in address order from runs of free grains, many at a time, also in pages that are not in memory: a
//! hole that ends at such a page would serve shorter blocks only, and a new slab's pages are not in memory either. They
//! lie at multiples of the largest power of two that divides their length, up to 64 bytes, a line of the processor's
//! cache: a hole seldom holds a block of 2 KiB at a multiple of 2 KiB.

use core::ops::Range;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicU64, Ordering};

use super::{NONE, NotOut, PAGES, PageCounts, Slab};
use crate::classes::{GRAIN, LARGEST, PAGE, SLAB, class_of, is_block, size_of_class};
use crate::corruption::corrupted;
use crate::entry::DISSOLVED;
use crate::links::{Chain, Links};

/// The number of grains in a slab.
const GRAINS: usize = SLAB / GRAIN;

const WORDS: usize = GRAINS / 64;

/// The longest blocks of dissolved slabs, in grains. Longer runs are not told apart.
pub(crate) const LONGEST: u32 = (8 << 10) / GRAIN as u32;

/// The alignment of blocks in dissolved slabs, at most, in grains.
const MOST_ALIGNED: usize = 64 / GRAIN;

/// The classes whose slabs can be dissolved, and whose blocks lie in dissolved slabs. Blocks of class 0 are not told
/// from those of class 1 there.
pub(crate) const SOLUBLE: Range<usize> = 1..class_of(LONGEST as usize * GRAIN) + 1;

/// What is out of a dissolved slab, by the grain. The thread that holds the lock of the heap's slabs changes it.
///
/// Invariants: `used` has each grain of a block that is out; `bounds` has the first grain of each such block and the
/// one behind its last, and none between. While a block is out, these bits do not change, so that the thread that has
/// the block finds its length without the lock.
#[repr(C)]
pub struct GrainMap {
    used: [AtomicU64; WORDS],
    bounds: [AtomicU64; WORDS],
}

impl GrainMap {
    /// Returns the class of the block that begins at an offset in the slab, less than its length; `None` if none that
    /// is out does.
    pub(crate) fn class_at(&self, offset: usize) -> Option<usize> {
        let first = offset / GRAIN;
        let is_in = |words: &[AtomicU64; WORDS]| words[first / 64].load(Ordering::Relaxed) >> (first % 64) & 1 == 1;
        if !offset.is_multiple_of(GRAIN) || !is_in(&self.bounds) || !is_in(&self.used) {
            return None;
        }
        let end = find(&self.bounds, first + 1, |bounds| bounds).unwrap_or(GRAINS);
        let size = (end - first) * GRAIN;
        let class = class_of(size.min(LARGEST));
        (size_of_class(class) == size).then_some(class)
    }

    /// Calls `visit` with the class of each block that is out; approximate while another thread has the lock.
    pub fn each_class(&self, mut visit: impl FnMut(usize)) {
        for word in 0..WORDS {
            let mut rest = self.bounds[word].load(Ordering::Relaxed) & self.used[word].load(Ordering::Relaxed);
            while rest != 0 {
                let grain = word * 64 + rest.trailing_zeros() as usize;
                self.class_at(grain * GRAIN).into_iter().for_each(&mut visit);
                rest &= rest - 1;
            }
        }
    }

    /// Returns the number of holes; approximate while another thread has the lock.
    pub fn count_holes(&self) -> usize {
        let (mut holes, mut from) = (0, 0);
        while let Some((_, end)) = self.next_run(from) {
            (holes, from) = (holes + 1, end);
        }
        holes
    }

    /// Makes the map that of a slab of blocks of `grains` grains that are all out.
    fn fill(&self, grains: usize) {
        self.used.iter().for_each(|word| word.store(u64::MAX, Ordering::Relaxed));
        self.bounds.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        (0..GRAINS).step_by(grains).for_each(|first| set(&self.bounds[first / 64], 1 << (first % 64)));
        let rest = GRAINS % grains;
        self.remove(GRAINS - rest, rest);
    }

    /// Notes that a block is out.
    fn add(&self, first: usize, grains: usize) {
        let end = first + grains;
        each_word(first + 1, grains - 1, |word, mask| clear(&self.bounds[word], mask));
        for bound in [first, end].into_iter().filter(|&bound| bound < GRAINS) {
            set(&self.bounds[bound / 64], 1 << (bound % 64));
        }
        each_word(first, grains, |word, mask| set(&self.used[word], mask));
    }

    /// Notes that a block is free.
    fn remove(&self, first: usize, grains: usize) {
        each_word(first, grains, |word, mask| clear(&self.used[word], mask));
    }

    /// The first run of free grains at or above `from`: where it begins and where it ends.
    fn next_run(&self, from: usize) -> Option<(usize, usize)> {
        let begin = find(&self.used, from, |used| !used)?;
        Some((begin, find(&self.used, begin, |used| used).unwrap_or(GRAINS)))
    }

    /// The lowest multiple of `align`, at most [`MOST_ALIGNED`], at or above `from` at which that many grains are free.
    fn next_place(&self, from: usize, grains: usize, align: usize) -> Option<usize> {
        if grains > 64 { self.next_long_place(from, grains, align) } else { self.next_short_place(from, grains, align) }
    }

    /// The same for up to 64 grains, in time that does not depend on the number of holes: they lie in two words.
    fn next_short_place(&self, from: usize, grains: usize, align: usize) -> Option<usize> {
        let multiples = u64::MAX / ((1 << align) - 1);
        let mut wanted = multiples & u64::MAX << (from % 64);
        for word in from / 64..WORDS {
            let free = self.free(word);
            let mut places = u128::from(free) | u128::from(self.free(word + 1)) << 64;
            // A bit stands for `run` free grains from there on.
            let mut run = 1;
            while places as u64 & wanted != 0 && run < grains {
                let more = run.min(grains - run);
                places &= places >> more;
                run += more;
            }
            let found = places as u64 & wanted;
            if found != 0 {
                return Some(word * 64 + found.trailing_zeros() as usize);
            }
            wanted = multiples;
        }
        None
    }

    /// The same for more than 64 grains: only holes that reach across the end of a word are as long.
    fn next_long_place(&self, from: usize, grains: usize, align: usize) -> Option<usize> {
        let (mut word, mut wanted) = (from / 64, u64::MAX << (from % 64));
        while word < WORDS {
            let begin = (word + 1) * 64 - (self.free(word) & wanted).leading_ones() as usize;
            let whole = (word + 1..WORDS).find(|&word| self.free(word) != u64::MAX).unwrap_or(WORDS);
            let end = whole * 64 + self.free(whole).trailing_ones() as usize;
            let at = begin.next_multiple_of(align);
            if at + grains <= end {
                return Some(at);
            }
            (word, wanted) = (whole, u64::MAX);
        }
        None
    }

    /// Returns the free grains of a word, one bit each; none behind the last.
    fn free(&self, word: usize) -> u64 {
        self.used.get(word).map_or(0, |used| !used.load(Ordering::Relaxed))
    }

    /// How many free grains lie around those of a free block, at most [`LONGEST`].
    fn run_around(&self, first: usize, grains: usize) -> u32 {
        let behind = find(&self.used, first + grains, |used| used).unwrap_or(GRAINS);
        let mut begin = first;
        while begin > 0 && behind - begin < LONGEST as usize {
            let before = self.used[(begin - 1) / 64].load(Ordering::Relaxed) << (63 - (begin - 1) % 64);
            begin -= (before.leading_zeros() as usize).min((begin - 1) % 64 + 1);
            if before.leading_zeros() == 0 || !begin.is_multiple_of(64) {
                break;
            }
        }
        ((behind - begin) as u32).min(LONGEST)
    }
}

/// Returns the first grain at or above `from` whose bit is set in `view` of its word.
fn find(words: &[AtomicU64; WORDS], from: usize, view: impl Fn(u64) -> u64) -> Option<usize> {
    let mut mask = u64::MAX << (from % 64);
    for (word, bits) in words.iter().enumerate().skip(from / 64) {
        let found = view(bits.load(Ordering::Relaxed)) & mask;
        if found != 0 {
            return Some(word * 64 + found.trailing_zeros() as usize);
        }
        mask = u64::MAX;
    }
    None
}

// The bits are changed by the thread that has the lock of the heap's slabs: no other one writes between load and store.

fn set(word: &AtomicU64, bits: u64) {
    word.store(word.load(Ordering::Relaxed) | bits, Ordering::Relaxed);
}

fn clear(word: &AtomicU64, bits: u64) {
    word.store(word.load(Ordering::Relaxed) & !bits, Ordering::Relaxed);
}

/// Calls `change` with each word that has bits of these grains, and with the bits.
fn each_word(first: usize, grains: usize, mut change: impl FnMut(usize, u64)) {
    let (mut at, end) = (first, first + grains);
    while at < end {
        let count = (64 - at % 64).min(end - at);
        change(at / 64, u64::MAX >> (64 - count) << (at % 64));
        at += count;
    }
}

/// A dissolved slab, for the thread that has the lock of its heap's slabs.
pub(crate) struct DissolvedSlab<'s> {
    pub(crate) slab: &'s mut Slab,
    pub(crate) map: &'s GrainMap,
    /// Where the slab begins.
    pub(crate) start: *mut u8,
}

impl Slab {
    /// An upper bound of the longest run of free grains in a dissolved slab, at most [`LONGEST`].
    pub(crate) fn longest(&self) -> u32 {
        self.longest.into()
    }
}

impl DissolvedSlab<'_> {
    /// Makes a slab of a [`SOLUBLE`] class a dissolved one. The blocks that are out stay as they are.
    ///
    /// # Safety
    /// The slab begins at `start`, and `links` are its class's.
    pub(crate) unsafe fn dissolve(&mut self, links: Links) {
        let (class, size) = (self.slab.class(), size_of_class(self.slab.class()));
        self.map.fill(size / GRAIN);
        for page in 0..PAGES {
            if self.slab.fresh & 1 << page != 0 {
                let first = (page * PAGE).next_multiple_of(size);
                let end = ((page + 1) * PAGE).min(SLAB - size + 1);
                (first..end).step_by(size).for_each(|offset| self.map.remove(offset / GRAIN, size / GRAIN));
            }
            if self.slab.ready & 1 << page != 0 {
                // SAFETY: as this function requires.
                unsafe { self.note_free(page, class, links) };
            }
        }
        self.slab.free = [NONE; PAGES];
        (self.slab.ready, self.slab.fresh, self.slab.starts) = (0, 0, 0);
        self.slab.class = DISSOLVED as u8;
        self.slab.grains_out = self.map.used.iter().map(|word| word.load(Ordering::Relaxed).count_ones() as u16).sum();
        self.slab.longest = LONGEST as u16;
    }

    /// Notes that the blocks in the list of a page are free.
    ///
    /// # Safety
    /// As [`DissolvedSlab::dissolve`]; the list has a first block.
    unsafe fn note_free(&self, page: usize, class: usize, links: Links) {
        let mut offset = usize::from(self.slab.free[page]) * GRAIN;
        // More than a page has: a list that has come to be a circle ends, too.
        for _ in 0..PAGE / GRAIN {
            self.map.remove(offset / GRAIN, size_of_class(class) / GRAIN);
            // SAFETY: the block is free, in the page's list, and lies in the slab.
            let next = unsafe { links.next(self.start.add(offset)) };
            let Some(block) = NonNull::new(next) else { return };
            offset = block.addr().get().wrapping_sub(self.start.addr());
            if offset / PAGE != page || !is_block(offset, class) {
                corrupted(block);
            }
        }
    }

    /// Takes up to `wanted` blocks of one of these classes, from the lowest addresses on.
    pub(crate) fn take(&mut self, class: usize, links: Links, wanted: u32, pages: &mut PageCounts) -> Chain {
        let grains = size_of_class(class) / GRAIN;
        let align = (1 << grains.trailing_zeros()).min(MOST_ALIGNED);
        let mut chain = Chain { end: links, ..Chain::EMPTY };
        let mut from = 0;
        while chain.count < wanted {
            let Some(at) = self.map.next_place(from, grains, align) else {
                // A hole that is longer holds a place at any such multiple.
                let is_misaligned = align > 1 && self.map.next_place(0, grains, 1).is_some();
                let longest = if is_misaligned { grains + align - 2 } else { grains - 1 };
                self.slab.longest = self.slab.longest.min(longest as u16);
                break;
            };
            self.take_out(at, grains, pages);
            self.append(at, &mut chain);
            from = at + grains;
        }
        chain
    }

    fn take_out(&mut self, first: usize, grains: usize, pages: &mut PageCounts) {
        self.map.add(first, grains);
        self.slab.grains_out += grains as u16;
        pages_of(first, grains).for_each(|page| self.slab.add_out(page, 1, pages));
    }

    fn append(&self, first: usize, chain: &mut Chain) {
        // SAFETY: the grain lies in the slab.
        let block = unsafe { self.start.add(first * GRAIN) };
        // SAFETY: the block has just been taken, and the last is free and in the chain.
        unsafe {
            chain.end.link(block, null_mut());
            if chain.first.is_null() {
                chain.first = block;
            } else {
                chain.end.link(chain.last, block);
            }
        }
        chain.last = block;
        chain.count += 1;
    }

    /// Puts a block of a class back that was out and begins at an offset in the slab.
    ///
    /// # Errors
    /// [`NotOut`] when no such block begins there; nothing has changed.
    pub(crate) fn put(&mut self, offset: usize, class: usize, pages: &mut PageCounts) -> Result<(), NotOut> {
        if self.map.class_at(offset) != Some(class) {
            return Err(NotOut);
        }
        let (first, grains) = (offset / GRAIN, size_of_class(class) / GRAIN);
        if pages_of(first, grains).any(|page| self.slab.out[page] == 0) {
            return Err(NotOut);
        }
        pages_of(first, grains).for_each(|page| self.slab.remove_out(page, 1, pages));
        self.map.remove(first, grains);
        self.slab.grains_out -= grains as u16;
        let run = self.map.run_around(first, grains);
        self.slab.longest = self.slab.longest.max(run as u16);
        Ok(())
    }
}

/// The pages that a block of these grains overlaps.
fn pages_of(first: usize, grains: usize) -> Range<usize> {
    first * GRAIN / PAGE..((first + grains) * GRAIN).div_ceil(PAGE)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::boxed::Box;
    use std::collections::BTreeMap;
    use std::sync::atomic::AtomicBool;
    use std::thread;
    use std::vec::Vec;

    use super::*;
    use crate::links::Key;

    fn empty() -> Box<GrainMap> {
        let words = || [const { AtomicU64::new(0) }; WORDS];
        Box::new(GrainMap { used: words(), bounds: words() })
    }

    /// Compares the map with a list of blocks, while random blocks come and go.
    #[test]
    fn blocks_and_holes_are_those_of_a_list() {
        let (map, mut blocks) = (empty(), BTreeMap::<usize, usize>::new());
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..20_000 {
            let class = random.usize(SOLUBLE);
            let grains = size_of_class(class) / GRAIN;
            let first = random.usize(..=GRAINS - grains);
            let below = blocks.range(..first + grains).next_back().map(|(first, grains)| (*first, *grains));
            match below {
                Some((other, length)) if other + length > first => {
                    map.remove(other, length);
                    blocks.remove(&other);
                    assert_eq!(map.class_at(other * GRAIN), None);
                }
                _ => {
                    map.add(first, grains);
                    blocks.insert(first, grains);
                }
            }
            let at = random.usize(..GRAINS);
            let class = blocks.get(&at).map(|grains| class_of(grains * GRAIN));
            assert_eq!(map.class_at(at * GRAIN), class);
        }
        for (first, grains) in &blocks {
            assert_eq!(map.class_at(first * GRAIN), Some(class_of(grains * GRAIN)));
        }
        let mut ends = blocks.iter().map(|(first, grains)| (*first, first + grains)).collect::<Vec<_>>();
        ends.push((GRAINS, GRAINS));
        let starts = core::iter::once(0).chain(ends.iter().map(|(_, end)| *end));
        let holes = starts.zip(&ends).filter(|(end, (first, _))| end < first).count();
        assert_eq!(map.count_holes(), holes);
    }

    /// A search that finds no hole for a class tells the heap how long the longest may be: a hole that is longer is not
    /// found again. Those in which an aligned block does not fit count as a whole.
    #[test]
    fn no_hole_is_longer_than_the_longest() {
        let (map, mut memory) = (empty(), std::vec![0_u8; 2 * SLAB]);
        let start = memory.as_mut_ptr().wrapping_add(memory.as_ptr().align_offset(SLAB));
        let (mut slab, mut pages) = (Slab::new(1, true), PageCounts::NONE);
        let links = Links::InBlock(Key(0));
        let mut dissolved = DissolvedSlab { slab: &mut slab, map: &map, start };
        // SAFETY: the slab begins there, and no block of it is in a list.
        unsafe { dissolved.dissolve(links) };
        let (mut random, mut blocks) = (fastrand::Rng::with_seed(3), Vec::new());
        for _ in 0..20_000 {
            let class = random.usize(SOLUBLE);
            if random.bool() || blocks.is_empty() {
                let chain = dissolved.take(class, links, random.u32(1..4), &mut pages);
                let mut block = chain.first;
                for _ in 0..chain.count {
                    blocks.push((block.addr() - start.addr(), class));
                    // SAFETY: the block was just taken, and nothing has been written there since.
                    block = unsafe { links.next(block) };
                }
            } else {
                let (offset, class) = blocks.swap_remove(random.usize(..blocks.len()));
                assert!(dissolved.put(offset, class, &mut pages).is_ok());
            }
            let (mut from, mut longest) = (0, 0);
            while let Some((begin, end)) = map.next_run(from) {
                (from, longest) = (end, longest.max(end - begin));
            }
            assert!(dissolved.slab.longest() as usize >= longest.min(LONGEST as usize));
        }
    }

    #[test]
    fn the_length_of_a_block_is_found_while_its_neighbours_come_and_go() {
        let (map, done) = (empty(), AtomicBool::new(false));
        map.add(60, 8);
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..100_000 {
                    for (first, grains) in [(68, 3), (57, 3), (71, 64)] {
                        map.add(first, grains);
                    }
                    for (first, grains) in [(71, 64), (57, 3), (68, 3)] {
                        map.remove(first, grains);
                    }
                }
                done.store(true, Ordering::Relaxed);
            });
            while !done.load(Ordering::Relaxed) {
                assert_eq!(map.class_at(60 * GRAIN), Some(class_of(8 * GRAIN)));
            }
        });
    }
}
