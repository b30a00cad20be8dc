//! A set of small integers as a 64-ary hierarchy of bitmaps: a set bit means that the word below it is not empty.

use crate::bits::{above, below, highest, lowest};
use crate::cells::Cells;
use crate::parts::Parts;

/// Returns how many cells a set of integers below `bits` takes: all levels, lowest first, up to one of a single word.
pub(crate) const fn cells_for(mut bits: usize) -> usize {
    let mut cells = 0;
    loop {
        bits = bits.div_ceil(64);
        cells += bits;
        if bits <= 1 {
            return cells;
        }
    }
}

/// Adds the parts of a set of integers below `bits`, as far as it is used for integers below `used` and one word more.
#[inline(never)]
pub(crate) fn add_parts(parts: &mut Parts<'_>, mut bits: usize, mut used: usize) {
    loop {
        (bits, used) = (bits.div_ceil(64), used.div_ceil(64));
        parts.add(bits, used + 1);
        if bits <= 1 {
            return;
        }
    }
}

/// A view of the set stored in `cells` from `base` on; it holds integers below `bits`.
///
/// Every operation takes one step per level: at most seven for the largest region, one for most calls.
#[derive(Clone, Copy)]
pub(crate) struct BitTree {
    base: usize,
    bits: usize,
}

impl BitTree {
    #[inline(always)]
    pub(crate) const fn new(base: usize, bits: usize) -> Self {
        BitTree { base, bits }
    }

    #[inline(always)]
    pub(crate) fn insert(self, cells: &mut Cells<'_, u64>, member: usize) {
        let cell = self.base + member / 64;
        let word = cells.get(cell);
        cells.set(cell, word | 1 << (member % 64));
        if word == 0 && self.bits > 64 {
            self.insert_above(cells, member / 64);
        }
    }

    /// Updates the upper levels after this word of the lowest level became non-empty.
    #[inline(never)]
    fn insert_above(self, cells: &mut Cells<'_, u64>, mut word: usize) {
        let (mut level, mut bits) = (self.base, self.bits);
        while bits > 64 {
            bits = bits.div_ceil(64);
            level += bits;
            let cell = level + word / 64;
            let before = cells.get(cell);
            cells.set(cell, before | 1 << (word % 64));
            if before != 0 {
                return;
            }
            word /= 64;
        }
    }

    /// Adds the members of one word, which is not empty.
    #[inline(always)]
    pub(crate) fn insert_into_word(self, cells: &mut Cells<'_, u64>, word: usize, members: u64) {
        cells.set(self.base + word, cells.get(self.base + word) | members);
    }

    /// Removes members of one word, which has others.
    #[inline(always)]
    pub(crate) fn remove_from_word(self, cells: &mut Cells<'_, u64>, word: usize, members: u64) {
        cells.set(self.base + word, cells.get(self.base + word) & !members);
    }

    /// Removes a member; returns whether the set is then empty.
    #[inline(always)]
    pub(crate) fn remove(self, cells: &mut Cells<'_, u64>, member: usize) -> bool {
        let cell = self.base + member / 64;
        let word = cells.get(cell) & !(1 << (member % 64));
        cells.set(cell, word);
        word == 0 && (self.bits <= 64 || self.remove_above(cells, member / 64))
    }

    /// Updates the upper levels after this word of the lowest level became empty; returns whether the set is then
    /// empty.
    #[inline(never)]
    fn remove_above(self, cells: &mut Cells<'_, u64>, mut word: usize) -> bool {
        let (mut level, mut bits) = (self.base, self.bits);
        while bits > 64 {
            bits = bits.div_ceil(64);
            level += bits;
            let cell = level + word / 64;
            let after = cells.get(cell) & !(1 << (word % 64));
            cells.set(cell, after);
            if after != 0 {
                return false;
            }
            word /= 64;
        }
        true
    }

    #[inline]
    pub(crate) fn contains(self, cells: &Cells<'_, u64>, member: usize) -> bool {
        cells.get(self.base + member / 64) >> (member % 64) & 1 == 1
    }

    /// Returns the least member.
    #[inline]
    pub(crate) fn first(self, cells: &Cells<'_, u64>) -> Option<usize> {
        self.first_from(cells, 0)
    }

    /// Returns the least member that is at least `from`.
    #[inline]
    pub(crate) fn first_from(self, cells: &Cells<'_, u64>, from: usize) -> Option<usize> {
        if from >= self.bits {
            return None;
        }
        let word = cells.get(self.base + from / 64) & !below(from % 64);
        if word != 0 { Some(from & !63 | lowest(word)) } else { self.climb_up_from(cells, from) }
    }

    #[inline]
    fn climb_up_from(self, cells: &Cells<'_, u64>, from: usize) -> Option<usize> {
        let (mut level, mut bits, mut member, mut height) = (self.base, self.bits, from, 0);
        loop {
            let words = bits.div_ceil(64);
            if words <= 1 {
                return None;
            }
            level += words;
            bits = words;
            member /= 64;
            height += 1;
            let word = cells.get(level + member / 64) & above(member % 64);
            if word != 0 {
                member = member & !63 | lowest(word);
                return self.descend(cells, level, height, member, lowest);
            }
        }
    }

    /// Returns the greatest member that is below `to`.
    #[inline]
    pub(crate) fn last_below(self, cells: &Cells<'_, u64>, to: usize) -> Option<usize> {
        if to == 0 {
            return None;
        }
        let from = to - 1;
        let word = cells.get(self.base + from / 64) & !above(from % 64);
        if word != 0 { Some(from & !63 | highest(word)) } else { self.climb_down_from(cells, from) }
    }

    #[inline(never)]
    fn climb_down_from(self, cells: &Cells<'_, u64>, from: usize) -> Option<usize> {
        let (mut level, mut bits, mut member, mut height) = (self.base, self.bits, from, 0);
        loop {
            let words = bits.div_ceil(64);
            if words <= 1 {
                return None;
            }
            level += words;
            bits = words;
            member /= 64;
            height += 1;
            let word = cells.get(level + member / 64) & below(member % 64);
            if word != 0 {
                member = member & !63 | highest(word);
                return self.descend(cells, level, height, member, highest);
            }
        }
    }

    /// Follows the extreme bit (`lowest` or `highest`) down from `member` of the level at `height` above the members.
    /// Returns `None` where the levels contradict each other, which happens only in a damaged set.
    #[inline]
    fn descend(
        self,
        cells: &Cells<'_, u64>,
        mut level: usize,
        mut height: u32,
        mut member: usize,
        extreme: fn(u64) -> usize,
    ) -> Option<usize> {
        while height > 0 {
            height -= 1;
            let shift = 6 * (height + 1);
            let words = (self.bits + (1 << shift) - 1) >> shift;
            level -= words;
            let word = if member < words { cells.get(level + member) } else { 0 };
            if word == 0 {
                return None;
            }
            member = member * 64 + extreme(word);
        }
        Some(member)
    }

    /// Returns the number of members below `used`; for the checks.
    pub(crate) fn count(self, cells: &Cells<'_, u64>, used: usize) -> usize {
        (0..used.div_ceil(64)).map(|word| cells.get(self.base + word).count_ones() as usize).sum()
    }

    /// Checks that the set contains exactly those integers below `used` for which `is_member` holds, and none above as
    /// far as its words go. Otherwise returns the first wrong one.
    pub(crate) fn check(
        self,
        cells: &Cells<'_, u64>,
        used: usize,
        is_member: impl Fn(usize) -> bool,
    ) -> Result<(), usize> {
        check_level(cells, self.base, used, is_member)?;
        self.check_above(cells, used)
    }

    /// Checks that the upper levels agree with the lowest one for the first `used` integers. Otherwise returns the
    /// first integer of a wrong word.
    pub(crate) fn check_above(self, cells: &Cells<'_, u64>, mut used: usize) -> Result<(), usize> {
        let (mut level, mut bits, mut shift) = (self.base, self.bits, 0);
        while bits > 64 {
            let below = level;
            level += bits.div_ceil(64);
            (bits, used, shift) = (bits.div_ceil(64), used.div_ceil(64), shift + 6);
            check_level(cells, level, used, |word| cells.get(below + word) != 0).map_err(|word| word << shift)?;
        }
        Ok(())
    }
}

/// Checks that the words from `level` on equal `is_set` for each of `used` places and are 0 elsewhere. Otherwise
/// returns the first place of a wrong word.
fn check_level(cells: &Cells<'_, u64>, level: usize, used: usize, is_set: impl Fn(usize) -> bool) -> Result<(), usize> {
    for first in (0..used).step_by(64) {
        let places = first..used.min(first + 64);
        let expected = places.rev().fold(0, |word, place| word << 1 | u64::from(is_set(place)));
        if cells.get(level + first / 64) != expected {
            return Err(first);
        }
    }
    Ok(())
}
