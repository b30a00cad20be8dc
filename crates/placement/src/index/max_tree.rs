//! The max tree: for every word of the map the largest hole that starts in it, and 16-way maxima above. A row of 16
//! entries is one cache line and is read as a whole.
//!
//! Lengths above `i32::MAX` granules are stored as `i32::MAX`; a region contains few holes that long, and they are
//! compared one by one.

use crate::bits::lowest;
use crate::cells::Cells;
use crate::heap::Section;
use crate::index::{Index, Survey, Update};
use crate::map::{BlockMap, Hole, PLAIN_WORDS, words_for};
use crate::parts::{Parts, Reach};

mod row;

use row::WIDTH;

/// A node of one level covers a row of the level below.
const LEVEL_BITS: u32 = WIDTH.ilog2();

const LONGEST: usize = i32::MAX as usize;

pub struct MaxTree<'m> {
    /// Row 0: the first row of each level. Then the levels, the one with an entry per word first, each padded to whole
    /// rows.
    entries: Cells<'m, i32>,
}

#[inline]
fn clamp(len: usize) -> i32 {
    len.min(LONGEST) as i32
}

/// Returns the row at which each level of a tree over `words` words begins.
fn first_rows(words: usize) -> impl Iterator<Item = usize> {
    let (mut row, mut width) = (1, words);
    core::iter::from_fn(move || {
        (width > 1).then(|| {
            let first = row;
            width = width.div_ceil(WIDTH);
            row += width;
            first
        })
    })
}

impl<'m> MaxTree<'m> {
    /// Returns the first entry of `level`.
    #[inline(always)]
    fn level(&self, level: usize) -> usize {
        self.entries.get(level) as usize * WIDTH
    }

    /// Returns the row of `level` that contains `place`.
    #[inline(always)]
    fn row(&self, level: usize, place: usize) -> &[i32; WIDTH] {
        self.entries.row(self.level(level) + (place & !(WIDTH - 1)))
    }

    /// Returns the largest hole that starts in `word`, without those in `but`.
    #[inline(always)]
    fn largest_in(map: &BlockMap<'m>, word: usize, but: u64) -> usize {
        let mut holes = map.holes(word) & !but;
        let mut largest = 0;
        while holes != 0 {
            largest = largest.max(map.hole_at(word * 64 + lowest(holes)).len);
            holes &= holes - 1;
        }
        largest
    }

    #[inline(always)]
    fn entry(&self, word: usize) -> i32 {
        self.entries.get(self.level(0) + word)
    }

    /// Changes the entry of `word` from `old` to `value`, and updates the maxima above.
    ///
    /// A row is read before the entry in it is written: a wide load right behind a narrow store waits for it.
    #[inline(always)]
    fn update(&mut self, height: u8, word: usize, mut old: i32, mut value: i32) {
        let mut place = word;
        let mut entry = self.level(0) + place;
        for level in 1..=usize::from(height) {
            let above = self.level(level) + place / WIDTH;
            let before = self.entries.get(above);
            let mut largest = before.max(value);
            if old == before && value < old {
                largest = row::max_with(self.row(level - 1, place), place % WIDTH, value);
            }
            self.entries.set(entry, value);
            if largest == before {
                return;
            }
            (old, value) = (before, largest);
            place /= WIDTH;
            entry = above;
        }
        self.entries.set(entry, value);
    }

    /// Returns the entry of `word` without the hole at `hole.start`.
    #[inline(always)]
    fn entry_without(&self, map: &BlockMap<'m>, word: usize, hole: Hole) -> i32 {
        let entry = self.entry(word);
        if entry == clamp(hole.len) { clamp(Self::largest_in(map, word, 1 << (hole.start % 64))) } else { entry }
    }

    /// Returns the length of the largest hole, as far as entries contain it: exact below [`LONGEST`].
    #[inline(always)]
    pub(crate) fn largest(&self, height: u8) -> usize {
        row::max(self.row(height.into(), 0)) as usize
    }

    /// Returns the lowest of the holes of the greatest length, which [`MaxTree::largest`] returned as `largest`.
    pub(crate) fn largest_hole(&self, map: &BlockMap<'m>, height: u8, largest: usize) -> Option<Hole> {
        let mut best = self.first(map, height, 0, largest)?;
        if largest == LONGEST {
            while let Some(longer) = self.first_from(map, height, best.end(), best.len + 1) {
                best = longer;
            }
        }
        Some(best)
    }

    /// Returns the lowest hole of at least `len` granules; the search is faster the nearer it is to `guess`, a granule
    /// below the heap's top.
    #[inline(always)]
    pub(crate) fn first(&self, map: &BlockMap<'m>, height: u8, guess: usize, len: usize) -> Option<Hole> {
        let word = self.first_word(height.into(), guess / 64, clamp(len))?;
        let hole = map.first_hole_in_word(word, len);
        if hole.len >= len { Some(hole) } else { self.first_after_word(map, height, word, len) }
    }

    /// Returns the lowest hole of at least `len` granules that starts at or above `from`.
    #[inline(never)]
    pub(crate) fn first_from(&self, map: &BlockMap<'m>, height: u8, from: usize, len: usize) -> Option<Hole> {
        let word = from / 64;
        if self.entry(word) >= clamp(len)
            && let Some(hole) = map.first_hole_in_word_from(word, from % 64, len)
        {
            return Some(hole);
        }
        self.first_after_word(map, height, word, len)
    }

    /// Returns the lowest hole of at least `len` granules that starts behind `word`.
    fn first_after_word(&self, map: &BlockMap<'m>, height: u8, mut word: usize, len: usize) -> Option<Hole> {
        loop {
            word = self.next_word(height, word, clamp(len))?;
            let hole = map.first_hole_in_word(word, len);
            if hole.len >= len {
                return Some(hole);
            }
        }
    }

    /// Returns the lowest word whose entry is at least `wanted`.
    ///
    /// Follows the path down to `guess` until the paths part. On a known path, the processor can load the next row
    /// before the contents of the previous one are available, unlike in a search from row to row.
    #[inline(always)]
    fn first_word(&self, height: usize, guess: usize, wanted: i32) -> Option<usize> {
        for level in (0..=height).rev() {
            let guessed = guess >> (LEVEL_BITS as usize * level);
            let enough = row::at_least(self.row(level, guessed), wanted);
            if level == height && enough == 0 {
                return None;
            }
            let place = guessed & !(WIDTH - 1) | lowest(enough.into());
            if place != guessed {
                return Some(self.descend(level, place, wanted));
            }
        }
        Some(guess)
    }

    /// Returns the lowest word whose entry is at least `wanted` below `place` of `level`, which has one.
    #[inline(always)]
    fn descend(&self, level: usize, mut place: usize, wanted: i32) -> usize {
        for below in (0..level).rev() {
            place *= WIDTH;
            place |= lowest(row::at_least(self.row(below, place), wanted).into());
        }
        place
    }

    /// Checks that each of the first `places` entries of `level` equals `expected`, and that the rest of the last row
    /// is 0; otherwise returns the first wrong one.
    fn check_level(&self, level: usize, places: usize, expected: impl Fn(usize) -> i32) -> Result<(), usize> {
        let entry = |place: usize| self.entries.get(self.level(level) + place);
        let wrong = (0..places).find(|&place| entry(place) != expected(place));
        let beyond = || (places..places.next_multiple_of(WIDTH)).find(|&place| entry(place) != 0);
        wrong.or_else(beyond).map_or(Ok(()), Err)
    }

    /// Returns the lowest word above `word` whose entry is at least `wanted`.
    fn next_word(&self, height: u8, word: usize, wanted: i32) -> Option<usize> {
        let mut place = word;
        for level in 0..=usize::from(height) {
            let behind = !1u32 << (place % WIDTH);
            let enough = u32::from(row::at_least(self.row(level, place), wanted)) & behind;
            if enough != 0 {
                return Some(self.descend(level, place & !(WIDTH - 1) | lowest(enough.into()), wanted));
            }
            place /= WIDTH;
        }
        None
    }
}

impl<'m> Section<'m> for MaxTree<'m> {
    fn cells_for(granules: usize) -> usize {
        let mut width = words_for(granules);
        if width <= PLAIN_WORDS {
            return 0;
        }
        let mut rows = 1;
        while width > 1 {
            width = width.div_ceil(WIDTH);
            rows += width;
        }
        rows * WIDTH / 2
    }

    fn add_parts(parts: &mut Parts<'_>, granules: usize, Reach { end, .. }: Reach) {
        const ROW: usize = WIDTH / 2;
        let (mut width, mut used) = (words_for(granules), words_for(end));
        if width <= PLAIN_WORDS {
            return;
        }
        parts.add_whole(ROW);
        while width > 1 {
            (width, used) = (width.div_ceil(WIDTH), used.div_ceil(WIDTH));
            parts.add(width * ROW, (used + 1) * ROW);
        }
    }

    fn new(cells: Cells<'m, u64>, granules: usize) -> Self {
        let mut entries = cells.split();
        let words = words_for(granules);
        if words > PLAIN_WORDS {
            for (level, row) in first_rows(words).enumerate() {
                entries.set(level, row as i32);
            }
        }
        MaxTree { entries }
    }
}

impl<'m> Update<'m> for MaxTree<'m> {
    #[inline(always)]
    fn level_bits(&self) -> u32 {
        LEVEL_BITS
    }

    #[inline(always)]
    fn insert(&mut self, _map: &mut BlockMap<'m>, height: u8, hole: Hole) {
        let (word, value) = (hole.start / 64, clamp(hole.len));
        let entry = self.entry(word);
        if value > entry {
            self.update(height, word, entry, value);
        }
    }

    #[inline(always)]
    fn remove(&mut self, map: &mut BlockMap<'m>, height: u8, hole: Hole) {
        let word = hole.start / 64;
        let entry = self.entry(word);
        if entry == clamp(hole.len) {
            let rest = self.entry_without(map, word, hole);
            self.update(height, word, entry, rest);
        }
    }

    #[inline(always)]
    fn moved(&mut self, map: &mut BlockMap<'m>, height: u8, from: Hole, to: Hole) {
        let word = from.start / 64;
        let entry = self.entry(word);
        let mut value = self.entry_without(map, word, from);
        if to.start / 64 == word {
            value = value.max(clamp(to.len));
        }
        if value != entry {
            self.update(height, word, entry, value);
        }
        if to.start / 64 != word {
            self.insert(map, height, to);
        }
    }

    fn raise(&mut self, _map: &BlockMap<'m>, height: u8) {
        let largest = row::max(self.row(height.into(), 0));
        self.entries.set(self.level(usize::from(height) + 1), largest);
    }
}

impl<'m> Index<'m> for MaxTree<'m> {
    #[inline(always)]
    fn reborrow(&mut self) -> impl Update<'_> {
        MaxTree { entries: self.entries.reborrow() }
    }

    fn check(&self, map: &BlockMap<'m>, survey: &Survey) -> Result<(), usize> {
        if first_rows(map.words()).enumerate().any(|(level, row)| self.entries.get(level) != row as i32) {
            return Err(0);
        }
        let largest = |word| clamp(Self::largest_in(map, word, map.pending_in(word)));
        self.check_level(0, survey.words, largest).map_err(|word| word * 64)?;
        let (mut places, mut granules) = (survey.words, 64);
        for level in 1..first_rows(map.words()).count() {
            (places, granules) = (places.div_ceil(WIDTH), granules * WIDTH);
            let kept = level <= usize::from(survey.height);
            let maximum = |place| if kept { row::max(self.row(level - 1, place * WIDTH)) } else { 0 };
            self.check_level(level, places, maximum).map_err(|place| place * granules)?;
        }
        Ok(())
    }
}
