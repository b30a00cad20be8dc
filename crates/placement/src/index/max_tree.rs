//! The max tree: for every word of the map the largest hole that starts in it, and 64-way maxima above.
//!
//! Lengths above `i32::MAX` granules are kept as `i32::MAX`; of holes that long a region can hold few, and they are
//! looked at one by one.

use crate::bits::{above, lowest};
use crate::cells::Cells;
use crate::index::Index;
use crate::map::{BlockMap, Hole, PLAIN_WORDS, words_for};

mod row;

const LONGEST: usize = i32::MAX as usize;

pub struct MaxTree<'m> {
    /// Level 0 (one entry per word) first; each level is padded to whole rows of 64.
    entries: Cells<'m, i32>,
    words: usize,
}

fn clamp(len: usize) -> i32 {
    len.min(LONGEST) as i32
}

/// Where the level above the one that starts at `level` and has `width` entries starts, and its width.
#[inline(always)]
fn up(level: usize, width: usize) -> (usize, usize) {
    let rows = width.div_ceil(64);
    (level + rows * 64, rows)
}

impl<'m> MaxTree<'m> {
    /// The start of each level up to `height`.
    #[inline(always)]
    fn levels(&self, height: u8) -> [usize; 6] {
        let mut levels = [0; 6];
        let mut width = self.words;
        for k in 0..usize::from(height).min(5) {
            (levels[k + 1], width) = up(levels[k], width);
        }
        levels
    }

    /// The largest hole that starts in `word`, those in `but` left aside.
    #[inline]
    fn largest_in(map: &BlockMap<'m>, word: usize, but: u64) -> usize {
        let mut holes = map.holes(word) & !but;
        let mut largest = 0;
        while holes != 0 {
            largest = largest.max(map.hole_at(word * 64 + lowest(holes)).len);
            holes &= holes - 1;
        }
        largest
    }

    /// Writes the entry of `word` and makes the maxima above follow.
    #[inline]
    fn update(&mut self, height: u8, word: usize, value: i32) {
        let old = self.entries.get(word);
        if old != value {
            self.entries.set(word, value);
            if height > 0 {
                self.propagate(height, word, old, value);
            }
        }
    }

    #[inline]
    fn propagate(&mut self, height: u8, mut place: usize, mut old: i32, mut value: i32) {
        let (mut level, mut width) = (0, self.words);
        for _ in 0..height {
            let row = level + (place & !63);
            (level, width) = up(level, width);
            place /= 64;
            let before = self.entries.get(level + place);
            let now = if value >= before {
                value
            } else if old == before {
                row::max(self.entries.row(row))
            } else {
                return;
            };
            if now == before {
                return;
            }
            self.entries.set(level + place, now);
            (old, value) = (before, now);
        }
    }

    /// The length of the largest hole, as far as entries can tell: exact below [`LONGEST`].
    #[inline]
    pub(crate) fn largest(&self, height: u8) -> usize {
        let root = self.levels(height)[usize::from(height)];
        row::max(self.entries.row(root)) as usize
    }

    /// The lowest hole of at least `len` granules that starts at or above `from`.
    #[inline]
    pub(crate) fn first_from(&self, map: &BlockMap<'m>, height: u8, from: usize, len: usize) -> Option<Hole> {
        let wanted = clamp(len);
        let (mut word, mut bit) = (from / 64, from % 64);
        if from == 0 {
            (word, bit) = (self.lowest_word(height, wanted)?, 0);
        }
        loop {
            if self.entries.get(word) >= wanted
                && let Some(hole) = map.first_hole_in_word(word, bit, len)
            {
                return Some(hole);
            }
            (word, bit) = (self.next_word(height, word, wanted)?, 0);
        }
    }

    /// The lowest of the holes of the greatest length, which [`MaxTree::largest`] gave as `largest`.
    pub(crate) fn largest_hole(&self, map: &BlockMap<'m>, height: u8, largest: usize) -> Option<Hole> {
        let mut best = self.first_from(map, height, 0, largest)?;
        if largest == LONGEST {
            while let Some(longer) = self.first_from(map, height, best.end(), best.len + 1) {
                best = longer;
            }
        }
        Some(best)
    }

    /// The lowest word whose entry is at least `wanted`.
    #[inline]
    fn lowest_word(&self, height: u8, wanted: i32) -> Option<usize> {
        let levels = self.levels(height);
        let mut place = 0;
        for &level in levels[..=usize::from(height)].iter().rev() {
            let enough = row::at_least(self.entries.row(level + place * 64), wanted);
            if enough == 0 {
                return None;
            }
            place = place * 64 + lowest(enough);
        }
        Some(place)
    }

    /// The lowest word above `word` whose entry is at least `wanted`.
    fn next_word(&self, height: u8, word: usize, wanted: i32) -> Option<usize> {
        let levels = self.levels(height);
        let mut place = word;
        for k in 0..=usize::from(height) {
            let enough = row::at_least(self.entries.row(levels[k] + (place & !63)), wanted) & above(place % 64);
            if enough != 0 {
                place = place & !63 | lowest(enough);
                for &level in levels[..k].iter().rev() {
                    place = place * 64 + lowest(row::at_least(self.entries.row(level + place * 64), wanted));
                }
                return Some(place);
            }
            place /= 64;
        }
        None
    }
}

impl<'m> Index<'m> for MaxTree<'m> {
    fn cells_for(granules: usize) -> usize {
        let mut width = words_for(granules);
        if width <= PLAIN_WORDS {
            return 0;
        }
        let mut rows = 0;
        while width > 1 {
            width = width.div_ceil(64);
            rows += width;
        }
        rows * 32
    }

    fn new(cells: Cells<'m, u64>, granules: usize) -> Self {
        MaxTree { entries: cells.split(), words: words_for(granules) }
    }

    #[inline(always)]
    fn insert(&mut self, _map: &mut BlockMap<'m>, height: u8, hole: Hole) {
        let word = hole.start / 64;
        let value = clamp(hole.len);
        if value > self.entries.get(word) {
            self.update(height, word, value);
        }
    }

    #[inline(always)]
    fn remove(&mut self, map: &mut BlockMap<'m>, height: u8, hole: Hole) {
        let word = hole.start / 64;
        if self.entries.get(word) == clamp(hole.len) {
            let rest = Self::largest_in(map, word, 1 << (hole.start % 64));
            self.update(height, word, clamp(rest));
        }
    }

    #[inline(always)]
    fn moved(&mut self, map: &mut BlockMap<'m>, height: u8, from: Hole, to: Hole) {
        let word = from.start / 64;
        if to.start / 64 != word {
            self.remove(map, height, from);
            self.insert(map, height, to);
            return;
        }
        let entry = self.entries.get(word);
        if entry == clamp(from.len) {
            let rest = Self::largest_in(map, word, 1 << (from.start % 64));
            self.update(height, word, clamp(rest.max(to.len)));
        } else if clamp(to.len) > entry {
            self.update(height, word, clamp(to.len));
        }
    }

    fn raise(&mut self, height: u8) {
        let levels = self.levels(height + 1);
        let largest = row::max(self.entries.row(levels[usize::from(height)]));
        self.entries.set(levels[usize::from(height) + 1], largest);
    }

    fn contains(&self, map: &BlockMap<'m>, height: u8, hole: Hole) -> bool {
        let word = hole.start / 64;
        let largest = Self::largest_in(map, word, 0);
        let mut place = word;
        let levels = self.levels(height);
        let above_agree = (0..usize::from(height)).all(|k| {
            let row = row::max(self.entries.row(levels[k] + (place & !63)));
            place /= 64;
            self.entries.get(levels[k + 1] + place) == row
        });
        self.entries.get(word) == clamp(largest) && above_agree
    }

    fn holds_only_holes(&self, map: &BlockMap<'m>, _height: u8, words: usize, _long: usize) -> bool {
        (0..words).all(|word| self.entries.get(word) == clamp(Self::largest_in(map, word, 0)))
    }
}
