//! The block map: where blocks and holes start.
//!
//! Two bits per granule, "a block starts here" and "a hole starts here", stored as a pair of words per 64 granules
//! `[starts, holes]`. A block ends where the next one starts. A summary above has a bit per word with a start.
//!
//! Invariants:
//! - granule 0 is a start; the heap's `top` is a start that is not a hole, and no granule above it is a start;
//! - a hole bit means something only at a start. Behind the start of a hole longer than 64 granules the 64 hole bits
//!   that follow are free for the index to use (see `min_trie`).

use crate::bit_tree::{self, BitTree};
use crate::bits::{above, below, free_granules, highest, lowest, runs_of};
use crate::cells::Cells;
use crate::parts::Parts;

mod halves;
mod rebuild;

/// A run of free granules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    pub(crate) start: usize,
    pub(crate) len: usize,
}

impl Hole {
    /// No hole at all.
    pub(crate) const NONE: Hole = Hole { start: 0, len: 0 };

    pub(crate) const fn end(self) -> usize {
        self.start + self.len
    }
}

/// Up to this many words a map has no summary (and a heap no index): a scan of all words is as fast.
pub(crate) const PLAIN_WORDS: usize = 16;

/// Returns how many map words `granules` take: one granule more, for the start at the heap's top.
pub(crate) const fn words_for(granules: usize) -> usize {
    granules / 64 + 1
}

/// Words behind a map that are read, always as 0, so that a read slightly beyond the end needs no test.
const GUARDS: usize = 3;

/// Cells behind the guards for the pending hole: its start and its end.
const PENDING: usize = 2;

/// A bit of the pending hole's end: [`BlockMap::pending_absorbed`].
const ABSORBED: u64 = 1 << 63;

/// Returns how many cells the map of a region of `granules` takes, guards and summary included.
pub(crate) const fn cells_for(granules: usize) -> usize {
    let words = words_for(granules);
    if words > PLAIN_WORDS { 2 * (words + GUARDS) + PENDING + bit_tree::cells_for(words) } else { 2 * words }
}

/// Adds the parts of the map of a region of `granules`, as far as a heap of `end` granules uses them.
pub(crate) fn add_parts(parts: &mut Parts<'_>, granules: usize, end: usize) {
    let (words, used) = (words_for(granules), words_for(end));
    if words <= PLAIN_WORDS {
        return parts.add_whole(2 * words);
    }
    parts.add(2 * words, 2 * (used + GUARDS));
    parts.add_whole(2 * GUARDS + PENDING);
    bit_tree::add_parts(parts, words, used);
}

/// Returns the lowest of `holes` that has `len` granules within its word, otherwise the last of them.
#[inline]
fn first_run(starts: u64, holes: u64, len: usize) -> usize {
    let fitting = if len <= 64 { runs_of(free_granules(starts, holes), len) } else { 0 };
    if fitting != 0 { lowest(fitting) } else { highest(holes) }
}

pub struct BlockMap<'m> {
    cells: Cells<'m, u64>,
    words: usize,
}

impl<'m> BlockMap<'m> {
    pub(crate) fn new(cells: Cells<'m, u64>, granules: usize) -> Self {
        BlockMap { cells, words: words_for(granules) }
    }

    /// The same map for a shorter time.
    #[inline(always)]
    pub(crate) fn reborrow(&mut self) -> BlockMap<'_> {
        BlockMap { cells: self.cells.reborrow(), words: self.words }
    }

    #[inline(always)]
    pub(crate) fn starts(&self, word: usize) -> u64 {
        self.cells.get(2 * word)
    }

    /// Returns the holes that start in `word`.
    #[inline(always)]
    pub(crate) fn holes(&self, word: usize) -> u64 {
        let [starts, holes] = *self.cells.row::<2>(2 * word);
        starts & holes
    }

    #[inline(always)]
    pub(crate) fn is_start(&self, granule: usize) -> bool {
        self.starts(granule / 64) >> (granule % 64) & 1 == 1
    }

    #[inline(always)]
    pub(crate) fn is_hole(&self, granule: usize) -> bool {
        self.holes(granule / 64) >> (granule % 64) & 1 == 1
    }

    /// Marks the start of a used block (or of the heap's top) at `granule`.
    #[inline(always)]
    pub(crate) fn mark_block(&mut self, granule: usize) {
        let (word, bit) = (granule / 64, 1u64 << (granule % 64));
        let [starts, holes] = *self.cells.row::<2>(2 * word);
        self.cells.set(2 * word + 1, holes & !bit);
        self.cells.set(2 * word, starts | bit);
        self.summarise(word);
    }

    /// Makes the hole that starts at `granule` a used block. The start remains, so the summary need not change.
    #[inline(always)]
    pub(crate) fn mark_taken(&mut self, granule: usize) {
        let (word, bit) = (granule / 64, 1u64 << (granule % 64));
        let holes = self.cells.get(2 * word + 1);
        self.cells.set(2 * word + 1, holes & !bit);
    }

    /// Makes the used block that starts at `granule` a hole. The start remains, so the summary need not change.
    #[inline(always)]
    pub(crate) fn mark_released(&mut self, granule: usize) {
        let (word, bit) = (granule / 64, 1u64 << (granule % 64));
        let holes = self.cells.get(2 * word + 1);
        self.cells.set(2 * word + 1, holes | bit);
    }

    /// Marks the end of a block that was cut from a hole, at `granule`: a hole starts there if `rest` granules are
    /// left, otherwise a used block does already. Without a branch: what is left of holes has no pattern.
    #[inline(always)]
    pub(crate) fn mark_cut(&mut self, granule: usize, rest: usize) {
        let (word, bit) = (granule / 64, granule % 64);
        let [starts, holes] = *self.cells.row::<2>(2 * word);
        self.cells.set(2 * word + 1, holes | u64::from(rest != 0) << bit);
        self.cells.set(2 * word, starts | 1 << bit);
        self.summarise(word);
    }

    /// Makes the used block that starts at `granule` a hole, or a part of the hole of `left` granules before it.
    /// Without a branch, as [`BlockMap::mark_cut`]: the hole bit has no meaning where nothing starts.
    #[inline(always)]
    pub(crate) fn mark_freed(&mut self, granule: usize, left: usize) {
        let (word, bit) = (granule / 64, granule % 64);
        let [starts, holes] = *self.cells.row::<2>(2 * word);
        let starts = starts & !(u64::from(left != 0) << bit);
        self.cells.set(2 * word + 1, holes | 1 << bit);
        self.cells.set(2 * word, starts);
        if starts == 0 {
            self.forget(word);
        }
    }

    /// Marks the start of a hole at `granule`.
    #[inline(always)]
    pub(crate) fn mark_hole(&mut self, granule: usize) {
        let (word, bit) = (granule / 64, 1u64 << (granule % 64));
        let [starts, holes] = *self.cells.row::<2>(2 * word);
        self.cells.set(2 * word + 1, holes | bit);
        self.cells.set(2 * word, starts | bit);
        self.summarise(word);
    }

    /// Removes the start at `granule`: what lies there belongs to the block before.
    #[inline(always)]
    pub(crate) fn unmark(&mut self, granule: usize) {
        let (word, bit) = (granule / 64, 1u64 << (granule % 64));
        let starts = self.starts(word) & !bit;
        self.cells.set(2 * word, starts);
        if starts == 0 {
            self.forget(word);
        }
    }

    #[inline(always)]
    pub(crate) fn has_summary(&self) -> bool {
        self.words > PLAIN_WORDS
    }

    #[inline(always)]
    fn summary(&self) -> BitTree {
        BitTree::new(2 * (self.words + GUARDS) + PENDING, self.words)
    }

    /// Sets the word's bit in the summary, even if it is set: a test would cost more by mispredictions than the store.
    #[inline(always)]
    fn summarise(&mut self, word: usize) {
        if self.has_summary() {
            self.summary().insert(&mut self.cells, word);
        }
    }

    #[inline]
    fn forget(&mut self, word: usize) {
        if self.has_summary() {
            self.summary().remove(&mut self.cells, word);
        }
    }

    /// Returns the starts among the 64 granules behind `granule`, the nearest as bit 0.
    #[inline(always)]
    fn starts_behind(&self, granule: usize) -> u64 {
        let (word, bit) = (granule / 64, granule % 64);
        self.starts(word) >> bit >> 1 | self.starts(word + 1) << (63 - bit)
    }

    /// Returns the starts among the 64 granules before `granule`, the nearest as bit 63.
    #[inline(always)]
    fn starts_before(&self, granule: usize) -> u64 {
        let (word, bit) = (granule / 64, granule % 64);
        let lower = if word == 0 { 0 } else { self.starts(word - 1) };
        self.starts(word) << (63 - bit) << 1 | lower >> bit
    }

    /// Returns the first start above `granule`, which is below the heap's top. In a damaged map it is some start above
    /// `granule`, or a number above every granule of the region.
    #[inline(always)]
    pub(crate) fn next_start(&self, granule: usize) -> usize {
        if !self.has_summary() {
            return self.next_start_plain(granule);
        }
        let near = self.starts_behind(granule);
        if near != 0 { granule + 1 + lowest(near) } else { self.next_start_far(granule + 64) }
    }

    #[inline(never)]
    fn next_start_far(&self, granule: usize) -> usize {
        let near = self.starts_behind(granule);
        if near != 0 {
            return granule + 1 + lowest(near);
        }
        let far = self.summary().first_from(&self.cells, (granule + 65) / 64).filter(|&word| word < self.words);
        match far.map(|word| (word, self.starts(word))) {
            Some((word, starts)) if starts != 0 => word * 64 + lowest(starts),
            _ => self.words * 64,
        }
    }

    #[inline(never)]
    fn next_start_plain(&self, granule: usize) -> usize {
        let mut word = granule / 64;
        let mut starts = self.starts(word) & above(granule % 64);
        while starts == 0 {
            word += 1;
            if word == self.words {
                return word * 64;
            }
            starts = self.starts(word);
        }
        word * 64 + lowest(starts)
    }

    /// Returns the last start below `granule`, which is above 0. In a damaged map it is some start below `granule`, or
    /// 0.
    #[inline(always)]
    pub(crate) fn prev_start(&self, granule: usize) -> usize {
        let near = self.starts_before(granule);
        if near != 0 { granule + highest(near) - 64 } else { self.prev_start_far(granule.saturating_sub(64)) }
    }

    #[inline(never)]
    fn prev_start_far(&self, granule: usize) -> usize {
        if !self.has_summary() {
            return self.prev_start_plain(granule);
        }
        let near = self.starts_before(granule);
        if near != 0 {
            return granule + highest(near) - 64;
        }
        let far = self.summary().last_below(&self.cells, granule.saturating_sub(64).div_ceil(64));
        match far.map(|word| (word, self.starts(word))) {
            Some((word, starts)) if starts != 0 => word * 64 + highest(starts),
            _ => 0,
        }
    }

    #[inline(never)]
    fn prev_start_plain(&self, granule: usize) -> usize {
        let mut word = granule / 64;
        let mut starts = self.starts(word) & below(granule % 64);
        while starts == 0 {
            if word == 0 {
                return 0;
            }
            word -= 1;
            starts = self.starts(word);
        }
        word * 64 + highest(starts)
    }

    /// Returns the start of the block that contains `granule`.
    #[inline]
    pub(crate) fn start_of(&self, granule: usize) -> usize {
        if self.is_start(granule) { granule } else { self.prev_start(granule) }
    }

    /// Returns the hole that starts at `granule`.
    #[inline(always)]
    pub(crate) fn hole_at(&self, granule: usize) -> Hole {
        Hole { start: granule, len: self.next_start(granule) - granule }
    }

    /// Returns the holes that start in `word`, without those in `but`.
    pub(crate) fn holes_in(&self, word: usize, but: u64) -> impl Iterator<Item = Hole> {
        let mut holes = self.holes(word) & !but;
        core::iter::from_fn(move || {
            let hole = (holes != 0).then(|| self.hole_at(word * 64 + lowest(holes)))?;
            holes &= holes - 1;
            Some(hole)
        })
    }

    /// Returns the lowest hole of at least `len` granules among those that start in `word`, of which the longest has
    /// `longest` granules, at least `len`.
    ///
    /// Only the last of them can continue behind the word. If it does and is chosen, it is the longest: those before
    /// it are too short. Its length is wrong only if it is the pending hole, which `longest` need not cover.
    #[inline(always)]
    pub(crate) fn first_hole_in_word(&self, word: usize, len: usize, longest: usize) -> Hole {
        let [starts, holes] = *self.cells.row::<2>(2 * word);
        let holes = starts & holes;
        let bit = if holes & (holes - 1) == 0 { lowest(holes) } else { first_run(starts, holes, len) };
        let behind = starts >> bit >> 1;
        let hole = Hole { start: word * 64 + bit, len: if behind == 0 { longest } else { 1 + lowest(behind) } };
        debug_assert!(hole.start == self.pending().start || hole == self.hole_at(hole.start));
        hole
    }

    /// Returns the lowest hole of at least `len` granules among those that start in `word` at or above bit `from`.
    #[inline]
    pub(crate) fn first_hole_in_word_from(&self, word: usize, from: usize, len: usize) -> Option<Hole> {
        let [starts, holes] = *self.cells.row::<2>(2 * word);
        let holes = starts & holes & !below(from);
        if holes == 0 {
            return None;
        }
        let hole = self.hole_at(word * 64 + first_run(starts, holes, len));
        (hole.len >= len).then_some(hole)
    }

    #[inline(always)]
    pub(crate) fn words(&self) -> usize {
        self.words
    }

    /// Returns the pending hole: the one that changed last and that is not yet in the index; 0 granules long
    /// when there is none. A map without a summary, and thus a heap without an index, has no room for one.
    ///
    /// Blocks are often freed in address order. Such a run of frees extends the same hole, and the index is updated
    /// once: before a hole is removed from it and before another hole is taken. First and best fit compare the pending
    /// hole with those in the index, so that a block that is freed and allocated in turns never enters it.
    #[inline(always)]
    pub(crate) fn pending(&self) -> Hole {
        let at = 2 * (self.words + GUARDS);
        let start = self.cells.get(at) as usize;
        Hole { start, len: (self.cells.get(at + 1) & !ABSORBED) as usize - start }
    }

    /// Returns whether the pending hole absorbed holes that the index may still contain: see
    /// [`Update::discard`](crate::index::Update::discard).
    #[inline(always)]
    pub(crate) fn pending_absorbed(&self) -> bool {
        self.cells.get(2 * (self.words + GUARDS) + 1) & ABSORBED != 0
    }

    /// Sets the pending hole, of which `absorbed` granules were holes of the index.
    #[inline(always)]
    pub(crate) fn set_pending(&mut self, hole: Hole, absorbed: usize) {
        let at = 2 * (self.words + GUARDS);
        self.cells.set(at, hole.start as u64);
        self.cells.set(at + 1, hole.end() as u64 | if absorbed == 0 { 0 } else { ABSORBED });
    }

    /// Moves the end of the pending hole up to `end`.
    #[inline(always)]
    pub(crate) fn lengthen_pending(&mut self, end: usize) {
        let at = 2 * (self.words + GUARDS) + 1;
        self.cells.set(at, self.cells.get(at) & ABSORBED | end as u64);
    }

    /// Returns the pending hole as a bit of the word it starts in, if that is `word`; for the checks.
    pub(crate) fn pending_in(&self, word: usize) -> u64 {
        let hole = self.pending();
        if hole.len != 0 && hole.start / 64 == word { 1 << (hole.start % 64) } else { 0 }
    }

    /// Checks that `top` is marked correctly, no granule above it is a start, the summary is right and the guards are
    /// clear, as far as `reach` (a granule not below `top`); otherwise returns a granule with an error. Whatever the
    /// cells contain, a map that passes gives correct results for all granules up to `top`.
    pub(crate) fn check(&self, top: usize, reach: usize) -> Result<(), usize> {
        if !self.is_start(0) {
            return Err(0);
        }
        if !self.is_start(top) || self.is_hole(top) || self.starts(top / 64) & above(top % 64) != 0 {
            return Err(top);
        }
        let used = words_for(reach);
        if let Some(word) = (top / 64 + 1..used).find(|&word| self.starts(word) != 0) {
            return Err(word * 64);
        }
        if !self.has_summary() {
            return Ok(());
        }
        if (2 * self.words..2 * (self.words + GUARDS)).any(|cell| self.cells.get(cell) != 0) {
            return Err(self.words * 64 - 1);
        }
        self.summary().check(&self.cells, used, |word| self.starts(word) != 0).map_err(|word| word * 64)
    }

    /// Checks that the pending hole is none, or a hole of this map, which passed [`BlockMap::check`] with `top`.
    pub(crate) fn check_pending(&self, top: usize) -> Result<(), usize> {
        if !self.has_summary() {
            return Ok(());
        }
        let at = 2 * (self.words + GUARDS);
        let (start, end) = (self.cells.get(at), self.cells.get(at + 1) & !ABSORBED);
        let is_hole = start < end && end <= top as u64 && {
            let start = start as usize;
            self.is_start(start) && self.is_hole(start) && self.next_start(start) as u64 == end
        };
        if is_hole || (start, self.cells.get(at + 1)) == (0, 0) { Ok(()) } else { Err(start.min(top as u64) as usize) }
    }

    /// Returns the 64 bits that follow the start of a hole longer than 64 granules.
    #[inline(always)]
    pub(crate) fn note(&self, start: usize) -> u64 {
        let (word, bit) = (start / 64, start % 64);
        let low = self.cells.get(2 * word + 1);
        let high = self.cells.get(2 * word + 3);
        // Bits above `bit` of this word come first; one shift of 64 is spelt as two so that bit 63 is no special case.
        (low >> bit >> 1) | (high << (63 - bit))
    }

    /// Writes the 64 bits that follow the start of a hole longer than 64 granules.
    #[inline(always)]
    pub(crate) fn set_note(&mut self, start: usize, note: u64) {
        let (word, bit) = (start / 64, start % 64);
        let low = self.cells.get(2 * word + 1) & !above(bit);
        let high = self.cells.get(2 * word + 3) & above(bit);
        self.cells.set(2 * word + 1, low | note << bit << 1);
        self.cells.set(2 * word + 3, high | note >> (63 - bit));
    }
}
