//! The max tree: for every word of the map the largest hole that starts in it, and 16-way maxima above. A row of 16
//! entries is one cache line and is read as a whole. The root is the lowest level of at most four rows.
//!
//! Freeing only raises entries, which reads no row, unless it absorbs a hole that starts in another word.
//!
//! Lengths above [`LONGEST`] are stored as [`LONGEST`]; a region contains few holes that long, and they are compared
//! one by one.

use crate::bits::{above, lowest};
use crate::cells::Cells;
use crate::heap::Section;
use crate::index::{Index, Survey, Update};
use crate::map::{BlockMap, Hole, PLAIN_WORDS, words_for};
use crate::parts::{Parts, Reach};

mod row;

use row::WIDTH;

/// Cells in a row.
const ROW: usize = WIDTH / 2;

/// A node of one level covers a row of the level below.
const LEVEL_BITS: u32 = WIDTH.ilog2();

/// Entries in the root: it is the lowest level of at most that many, and is searched as a whole.
const ROOT: usize = 64;

/// Lengths above this many granules are stored as this many.
const LONGEST: usize = (row::GREATEST - row::LEAST) as usize;

pub struct MaxTree<'m> {
    /// Row 0: the first row of each level. Then the levels, the one with an entry per word first, each padded to whole
    /// rows.
    entries: Cells<'m, i32>,
}

/// Returns the entry of a word whose longest hole has `len` granules, 0 if it has none.
#[inline(always)]
fn entry_of(len: usize) -> i32 {
    if len == 0 { 0 } else { row::LEAST + len.min(LONGEST) as i32 }
}

/// Returns how many granules an entry stands for.
#[inline(always)]
fn len_of(entry: i32) -> usize {
    (entry - row::LEAST).max(0) as usize
}

/// Returns how many rows each level of a tree over `words` words has, the lowest first. Each may be the root.
fn rows_of_levels(words: usize) -> impl Iterator<Item = usize> {
    let mut width = Some(words);
    core::iter::from_fn(move || {
        let rows = width?.div_ceil(WIDTH);
        width = (width? > ROOT).then_some(rows);
        Some(rows.max(ROOT / WIDTH))
    })
}

/// Returns the row at which each level of a tree over `words` words begins.
fn first_rows(words: usize) -> impl Iterator<Item = usize> {
    rows_of_levels(words).scan(1, |row, rows| Some(core::mem::replace(row, *row + rows)))
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

    /// Raises the entry of `word`, and the maxima above, to at least `value`. Passes through all levels: a test where
    /// nothing changes any more would cost more by mispredictions than the stores.
    #[inline(always)]
    fn lift(&mut self, height: u8, word: usize, value: i32) {
        let mut place = word;
        for level in 0..usize::from(height) + 1 {
            let entry = self.level(level) + place;
            self.entries.set(entry, self.entries.get(entry).max(value));
            place /= WIDTH;
        }
    }

    /// Lowers the entry of `word` to `value`, and updates the maxima above.
    ///
    /// A row is read before the entry in it is written: a wide load right behind a narrow store waits for it.
    #[inline(always)]
    fn lower(&mut self, height: u8, word: usize, mut value: i32) {
        let mut place = word;
        for level in 0..usize::from(height) {
            let largest = row::max_with(self.row(level, place), place % WIDTH, value);
            self.entries.set(self.level(level) + place, value);
            value = largest;
            place /= WIDTH;
        }
        self.entries.set(self.level(usize::from(height)) + place, value);
    }

    /// Returns the entry of `word` without the hole at `hole.start`.
    #[inline(always)]
    fn entry_without(&self, map: &BlockMap<'m>, word: usize, hole: Hole) -> i32 {
        entry_of(Self::largest_in(map, word, 1 << (hole.start % 64)))
    }

    /// Returns the length of the largest hole, as far as entries contain it: exact below [`LONGEST`].
    #[inline(always)]
    pub(crate) fn largest(&self, height: u8) -> usize {
        let rows = (0..ROOT).step_by(WIDTH).map(|place| row::max(self.row(height.into(), place)));
        len_of(rows.fold(0, i32::max))
    }

    /// Returns the lowest of the holes of the greatest length, which [`MaxTree::largest`] returned as `largest`.
    pub(crate) fn largest_hole(&self, map: &BlockMap<'m>, height: u8, largest: usize) -> Option<Hole> {
        let mut best = self.first(map, height, largest)?;
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
    pub(crate) fn first(&self, map: &BlockMap<'m>, height: u8, len: usize) -> Option<Hole> {
        let word = self.first_word(height.into(), entry_of(len))?;
        match self.first_in_word(map, word, len) {
            Some(hole) => Some(hole),
            None => self.first_after_word(map, height, word, len),
        }
    }

    /// Returns the lowest hole of at least `len` granules that starts in `word`, whose entry is at least that; `None`
    /// only if that is above [`LONGEST`].
    #[inline(always)]
    fn first_in_word(&self, map: &BlockMap<'m>, word: usize, len: usize) -> Option<Hole> {
        let longest = len_of(self.entry(word));
        if longest == LONGEST {
            return map.first_hole_in_word_from(word, 0, len);
        }
        Some(map.first_hole_in_word(word, len, longest))
    }

    /// Returns the lowest hole of at least `len` granules that starts at or above `from`.
    #[inline(never)]
    pub(crate) fn first_from(&self, map: &BlockMap<'m>, height: u8, from: usize, len: usize) -> Option<Hole> {
        let word = from / 64;
        if self.entry(word) >= entry_of(len)
            && let Some(hole) = map.first_hole_in_word_from(word, from % 64, len)
        {
            return Some(hole);
        }
        self.first_after_word(map, height, word, len)
    }

    /// Returns the lowest hole of at least `len` granules that starts behind `word`.
    fn first_after_word(&self, map: &BlockMap<'m>, height: u8, mut word: usize, len: usize) -> Option<Hole> {
        loop {
            word = self.next_word(height, word, entry_of(len))?;
            if let Some(hole) = self.first_in_word(map, word, len) {
                return Some(hole);
            }
        }
    }

    /// Returns a bit for each entry of the root, at `height`, that is at least `wanted`.
    #[inline(always)]
    fn root_at_least(&self, height: usize, wanted: i32) -> u64 {
        let mask = |row: usize| u64::from(row::at_least(self.row(height, row * WIDTH), wanted)) << (row * WIDTH);
        (mask(0) | mask(1)) | (mask(2) | mask(3))
    }

    /// Returns the lowest word whose entry is at least `wanted`.
    #[inline(always)]
    fn first_word(&self, height: usize, wanted: i32) -> Option<usize> {
        let enough = self.root_at_least(height, wanted);
        if enough == 0 { None } else { Some(self.descend(height, lowest(enough), wanted)) }
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
        let beyond = || (places..places.next_multiple_of(WIDTH).max(ROOT)).find(|&place| entry(place) != 0);
        wrong.or_else(beyond).map_or(Ok(()), Err)
    }

    /// Returns the lowest word above `word` whose entry is at least `wanted`.
    fn next_word(&self, height: u8, word: usize, wanted: i32) -> Option<usize> {
        let mut place = word;
        for level in 0..usize::from(height) {
            let behind = !1u32 << (place % WIDTH);
            let enough = u32::from(row::at_least(self.row(level, place), wanted)) & behind;
            if enough != 0 {
                return Some(self.descend(level, place & !(WIDTH - 1) | lowest(enough.into()), wanted));
            }
            place /= WIDTH;
        }
        let enough = self.root_at_least(height.into(), wanted) & above(place);
        if enough == 0 { None } else { Some(self.descend(height.into(), lowest(enough), wanted)) }
    }
}

impl<'m> Section<'m> for MaxTree<'m> {
    fn cells_for(granules: usize) -> usize {
        let words = words_for(granules);
        if words <= PLAIN_WORDS { 0 } else { (1 + rows_of_levels(words).sum::<usize>()) * ROW }
    }

    fn add_parts(parts: &mut Parts<'_>, granules: usize, Reach { end, .. }: Reach) {
        let (words, mut used) = (words_for(granules), words_for(end));
        if words <= PLAIN_WORDS {
            return;
        }
        parts.add_whole(ROW);
        for rows in rows_of_levels(words) {
            used = used.div_ceil(WIDTH);
            parts.add(rows * ROW, (used + 1).max(ROOT / WIDTH) * ROW);
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
    fn root_bits(&self, height: u8) -> u32 {
        ROOT.ilog2() + LEVEL_BITS * u32::from(height)
    }

    #[inline(always)]
    fn insert(&mut self, _map: &mut BlockMap<'m>, height: u8, hole: Hole) {
        self.lift(height, hole.start / 64, entry_of(hole.len));
    }

    #[inline(always)]
    fn remove(&mut self, map: &mut BlockMap<'m>, height: u8, hole: Hole) {
        let word = hole.start / 64;
        let entry = self.entry(word);
        if entry == entry_of(hole.len) {
            let rest = self.entry_without(map, word, hole);
            if rest != entry {
                self.lower(height, word, rest);
            }
        }
    }

    #[inline(always)]
    fn moved(&mut self, map: &mut BlockMap<'m>, height: u8, from: Hole, to: Hole) {
        let word = from.start / 64;
        let entry = self.entry(word);
        if entry == entry_of(from.len) {
            let kept = if to.start / 64 == word { entry_of(to.len) } else { 0 };
            let rest = self.entry_without(map, word, from).max(kept);
            if rest != entry {
                self.lower(height, word, rest);
            }
        }
        self.lift(height, to.start / 64, entry_of(to.len));
    }

    /// A hole that starts in the same word as `merged` is shorter: it lowers no entry.
    #[inline(always)]
    fn absorb(&mut self, map: &mut BlockMap<'m>, height: u8, hole: Hole, merged: Hole) {
        if hole.start / 64 != merged.start / 64 {
            self.remove(map, height, hole);
        }
    }

    /// An entry that a shorter hole left counts for the longer one.
    #[inline(always)]
    fn lengthens(&self) -> bool {
        true
    }

    #[cold]
    #[inline(never)]
    fn discard(&mut self, map: &mut BlockMap<'m>, height: u8, pending: Hole) {
        let word = pending.start / 64;
        let rest = self.entry_without(map, word, pending);
        if self.entry(word) != rest {
            self.lower(height, word, rest);
        }
    }

    fn raise(&mut self, _map: &BlockMap<'m>, height: u8) {
        for row in 0..ROOT / WIDTH {
            let largest = row::max(self.row(height.into(), row * WIDTH));
            self.entries.set(self.level(usize::from(height) + 1) + row, largest);
        }
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
        let pending = map.pending();
        let largest = |word| {
            let rest = entry_of(Self::largest_in(map, word, map.pending_in(word)));
            // What the pending hole absorbed may still be there, and is no longer than it.
            let most = if pending.start / 64 == word && map.pending_absorbed() { entry_of(pending.len) } else { 0 };
            self.entry(word).clamp(rest, rest.max(most))
        };
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

#[cfg(test)]
mod tests;
