//! The class map: where the holes of each exact length up to 64 granules are.
//!
//! A node is 64 words side by side, one per length, so that the search for one length reads one word per level. At
//! the lowest level bit `w` of the word for length `n` says that the `w`-th of the node's 64 map words has a hole of
//! exactly `n` granules; above, that the child has one. A word over all says which lengths there are.

use crate::bits::{free_granules, highest, lowest, runs_of};
use crate::cells::Cells;
use crate::map::{BlockMap, Hole};

/// Lengths up to this many granules are classes.
pub(crate) const CLASSES: usize = 64;

/// How many cells the class map of `words` map words takes.
pub(crate) const fn cells_for(words: usize) -> usize {
    let mut nodes = 0;
    let mut width = words;
    while width > 1 {
        width = width.div_ceil(64);
        nodes += width;
    }
    1 + nodes * CLASSES
}

/// A view of the class map stored in `cells` from `base` on: first the lengths there are (bit `n - 1`), then the
/// nodes, the lowest level first.
#[derive(Clone, Copy)]
pub(crate) struct ClassMap {
    base: usize,
    words: usize,
}

/// The holes of exactly `len` granules among those that start in `word`, those in `but` left aside.
#[inline(always)]
pub(crate) fn exact_in_word(map: &BlockMap<'_>, word: usize, but: u64, len: usize) -> u64 {
    let holes = map.holes(word);
    let rest = holes & !but;
    if rest == 0 {
        return 0;
    }
    exact_among(map, word, rest, len)
}

#[inline]
fn exact_among(map: &BlockMap<'_>, word: usize, holes: u64, len: usize) -> u64 {
    let free = free_granules(map.starts(word), holes);
    let longer = if len < 64 { free >> len } else { 0 };
    let within = runs_of(free, len) & holes & !longer;
    if free >> 63 == 0 {
        return within;
    }
    // The last hole goes on behind the word, so only the map can tell its length.
    let last = highest(holes);
    let exact = map.hole_at(word * 64 + last).len == len;
    within & !(1 << last) | u64::from(exact) << last
}

impl ClassMap {
    #[inline(always)]
    pub(crate) const fn new(base: usize, words: usize) -> Self {
        ClassMap { base, words }
    }

    /// The first cell of the level above the one that starts at `level` with `width` nodes below, and its width.
    #[inline(always)]
    const fn up(level: usize, width: usize) -> (usize, usize) {
        (level + width * CLASSES, width.div_ceil(64))
    }

    /// A bit for each length of which there is a hole.
    #[inline(always)]
    pub(crate) fn lengths(self, cells: &Cells<'_, u64>) -> u64 {
        cells.get(self.base)
    }

    #[inline(always)]
    pub(crate) fn insert(self, cells: &mut Cells<'_, u64>, height: u8, hole: Hole) {
        let class = hole.len - 1;
        let mut place = hole.start / 64;
        let (mut level, mut width) = (self.base + 1, self.words.div_ceil(64));
        for _ in 0..=height {
            let cell = level + (place & !63) + class;
            let before = cells.get(cell);
            cells.set(cell, before | 1 << (place % 64));
            if before != 0 {
                return;
            }
            place /= 64;
            (level, width) = Self::up(level, width);
        }
        cells.set(self.base, cells.get(self.base) | 1 << class);
    }

    #[inline(always)]
    pub(crate) fn remove(self, cells: &mut Cells<'_, u64>, map: &BlockMap<'_>, height: u8, hole: Hole) {
        let class = hole.len - 1;
        let mut place = hole.start / 64;
        if exact_in_word(map, place, 1 << (hole.start % 64), hole.len) != 0 {
            return;
        }
        let (mut level, mut width) = (self.base + 1, self.words.div_ceil(64));
        for _ in 0..=height {
            let cell = level + (place & !63) + class;
            let after = cells.get(cell) & !(1 << (place % 64));
            cells.set(cell, after);
            if after != 0 {
                return;
            }
            place /= 64;
            (level, width) = Self::up(level, width);
        }
        cells.set(self.base, cells.get(self.base) & !(1 << class));
    }

    /// The start of each level up to `height`.
    #[inline(always)]
    fn levels(self, height: u8) -> [usize; 6] {
        let mut levels = [self.base + 1; 6];
        let mut width = self.words.div_ceil(64);
        for k in 0..usize::from(height).min(5) {
            (levels[k + 1], width) = Self::up(levels[k], width);
        }
        levels
    }

    /// The lowest hole of exactly `len` granules; there is one ([`ClassMap::lengths`]).
    #[inline(always)]
    pub(crate) fn lowest(self, cells: &Cells<'_, u64>, map: &BlockMap<'_>, height: u8, len: usize) -> Hole {
        let class = len - 1;
        let levels = self.levels(height);
        let mut place = 0;
        for &level in levels[..=usize::from(height)].iter().rev() {
            place = place * 64 + lowest(cells.get(level + place * 64 + class));
        }
        let bit = lowest(exact_in_word(map, place, 0, len));
        Hole { start: place * 64 + bit, len }
    }

    /// The first map word above `word` that has a hole of exactly `len` granules.
    pub(crate) fn next_word(self, cells: &Cells<'_, u64>, height: u8, word: usize, len: usize) -> Option<usize> {
        let class = len - 1;
        let levels = self.levels(height);
        let mut place = word;
        for k in 0..=usize::from(height) {
            let higher = cells.get(levels[k] + (place & !63) + class) & crate::bits::above(place % 64);
            if higher != 0 {
                place = place & !63 | lowest(higher);
                for &level in levels[..k].iter().rev() {
                    place = place * 64 + lowest(cells.get(level + place * 64 + class));
                }
                return Some(place);
            }
            place /= 64;
        }
        None
    }

    /// The root rises from `height`.
    pub(crate) fn raise(self, cells: &mut Cells<'_, u64>, height: u8) {
        let levels = self.levels(height + 1);
        for class in 0..CLASSES {
            let any = cells.get(levels[usize::from(height)] + class) != 0;
            cells.set(levels[usize::from(height) + 1] + class, u64::from(any));
        }
    }

    /// Whether `word` is known to have a hole of `len` granules, on every level; for the checks.
    pub(crate) fn contains(self, cells: &Cells<'_, u64>, height: u8, word: usize, len: usize) -> bool {
        let levels = self.levels(height);
        let mut place = word;
        levels[..=usize::from(height)].iter().all(|level| {
            let known = cells.get(level + (place & !63) + len - 1) >> (place % 64) & 1 == 1;
            place /= 64;
            known
        }) && self.lengths(cells) >> (len - 1) & 1 == 1
    }
}
