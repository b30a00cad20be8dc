//! The index by rank, for random fit: finds the hole with a given number of predecessors in the order of (size,
//! address).
//!
//! Holes up to 64 granules are counted in classes; the ordered tree contains a key for each longer one. At most one
//! hole in 66 granules is longer than 64, which bounds the tree.
//!
//! In memory, per 1024 granules: 128 bytes for the counts of a group, 34 for those above, and 275 for the tree with
//! nodes half full. With its block map a heap of 16-byte granules has 4.25 % of its region as metadata (of a region of
//! 64 KiB 6.9 %, since nodes come whole).

use crate::bits::highest;
use crate::cells::Cells;
use crate::generator::Generator;
use crate::heap::Section;
use crate::index::class_map::CLASSES;
use crate::index::counted_classes::{self, CountedClasses, FAN_BITS};
use crate::index::ordered_tree::{self, OrderedTree};
use crate::index::{Choice, Index, Survey, Update, scan};
use crate::map::{BlockMap, Hole, PLAIN_WORDS, words_for};
use crate::parts::{Parts, Reach};
use crate::rules::MAX_GRANULES;
use crate::state::{Need, State};

/// A long hole as a number in the order of (length, address), in one of two forms:
///
/// ```text
///   below 512 granules:   0 … | length (9 bits) | start / 64 (30 bits)
///   from 512 on:          1   | length (36 bits) | start / 512 (27 bits)
/// ```
/// No two holes that are longer than 64 granules start in the same 64, nor two of at least 512 in the same 512, so
/// that keys differ; and the hole of such a key is the one that goes on behind the end of the 64 or 512.
#[derive(Clone, Copy)]
struct Key(u64);

/// From this length on holes have keys of the second form.
const FAR: usize = 512;
const FAR_FORM: u64 = 1 << 63;
const NEAR_BITS: u32 = 30;
const FAR_BITS: u32 = 27;

impl Key {
    #[inline(always)]
    fn of(hole: Hole) -> Key {
        let place = if hole.len < FAR { hole.start / 64 } else { hole.start / FAR };
        Key(Key::least(hole.len).0 | place as u64)
    }

    /// Returns the least key of a hole of `len` granules.
    #[inline(always)]
    fn least(len: usize) -> Key {
        if len < FAR { Key((len as u64) << NEAR_BITS) } else { Key(FAR_FORM | (len as u64) << FAR_BITS) }
    }

    #[inline(always)]
    fn hole(self, map: &BlockMap<'_>) -> Hole {
        if self.0 & FAR_FORM == 0 {
            let word = (self.0 & ((1 << NEAR_BITS) - 1)) as usize;
            return Hole { start: word * 64 + highest(map.starts(word)), len: (self.0 >> NEAR_BITS) as usize };
        }
        let place = (self.0 & ((1 << FAR_BITS) - 1)) as usize;
        Hole { start: map.start_of(place * FAR + (FAR - 1)), len: ((self.0 & !FAR_FORM) >> FAR_BITS) as usize }
    }
}

const _: () = assert!(crate::rules::MAX_GRANULES as u64 / 64 <= 1 << NEAR_BITS);
const _: () = assert!(crate::rules::MAX_GRANULES as u64 / FAR as u64 <= 1 << FAR_BITS);
const _: () = assert!(crate::rules::MAX_GRANULES as u64 <= 1 << (63 - FAR_BITS));

/// The numbers of holes up to 64 granules and of longer ones.
#[derive(Clone, Copy)]
struct Sizes {
    short: usize,
    long: usize,
}

impl Sizes {
    #[inline(always)]
    fn sum(self) -> usize {
        self.short + self.long
    }
}

/// An index of holes by their rank in the order of (size, address).
pub struct ByRank<'m> {
    /// The offset of the tree, the counts, the tree.
    cells: Cells<'m, u64>,
}

const TREE: usize = 0;
const CLASS_COUNTS: usize = 1;

/// Returns an upper bound of a region's holes longer than 64 granules, with a used block between any two.
const fn most_long(granules: usize) -> usize {
    granules / (CLASSES + 2)
}

impl<'m> ByRank<'m> {
    #[inline(always)]
    fn classes(map: &BlockMap<'m>) -> CountedClasses {
        CountedClasses::new(CLASS_COUNTS, map.words())
    }

    #[inline(always)]
    fn long(&self) -> OrderedTree {
        OrderedTree::new(self.cells.get(TREE) as usize)
    }

    /// Returns how many holes there are in classes, and in the tree.
    #[inline(always)]
    fn sizes(&self, map: &BlockMap<'m>) -> Sizes {
        Sizes { short: Self::classes(map).size(&self.cells), long: self.long().size(&self.cells) }
    }

    /// Returns how many holes are shorter than `len` granules.
    #[inline(always)]
    fn shorter(&self, map: &BlockMap<'m>, sizes: Sizes, len: usize) -> usize {
        if len <= CLASSES + 1 {
            return Self::classes(map).shorter(&self.cells, len);
        }
        let long = if len < MAX_GRANULES { self.long().rank(&self.cells, Key::least(len).0) } else { sizes.long };
        sizes.short + long
    }

    /// Returns the hole with `rank` holes before it; `rank` is below their number.
    #[inline(never)]
    fn select(&self, map: &BlockMap<'m>, sizes: Sizes, height: u8, rank: usize) -> Hole {
        if rank < sizes.short {
            return Self::classes(map).select(&self.cells, map, height, rank);
        }
        Key(self.long().select(&self.cells, rank - sizes.short)).hole(map)
    }

    /// Chooses among the holes that `need` fits into, the wilderness included. Time: logarithmic in the region.
    #[inline(never)]
    pub(crate) fn choose(&self, map: &BlockMap<'m>, state: &mut State, need: &Need) -> Choice {
        if need.align > 1 {
            return self.choose_aligned(map, state, need);
        }
        let sizes = self.sizes(map);
        let first = self.shorter(map, sizes, need.len);
        let tail = state.wilderness();
        let has_tail = tail >= need.len;
        let size = sizes.sum();
        let count = size - first + usize::from(has_tail);
        if count == 0 {
            return Choice::Nowhere;
        }
        let rank = first + Generator(&mut state.cursor).below(count);
        if rank < size {
            let hole = self.select(map, sizes, state.height, rank);
            // Equal holes come before the tail, which lies above them all.
            if !has_tail || hole.len <= tail {
                return Choice::Hole(hole);
            }
        }
        if rank == self.shorter(map, sizes, tail + 1) {
            return Choice::Wilderness;
        }
        Choice::Hole(self.select(map, sizes, state.height, rank - 1))
    }

    /// Chooses as [`ByRank::choose`] does where not every hole that is long enough fits: skips misfits one by one. Most
    /// holes are counted sooner in the order of the map.
    #[inline(never)]
    fn choose_aligned(&self, map: &BlockMap<'m>, state: &mut State, need: &Need) -> Choice {
        let (height, tail) = (state.height, state.wilderness());
        let sizes = self.sizes(map);
        let (shorter, size) = (self.shorter(map, sizes, need.len), sizes.sum());
        let fitting = || {
            let holes = (shorter..size).map(|rank| self.select(map, sizes, height, rank));
            holes.filter(|hole| need.fits(hole.start, hole.len))
        };
        let has_tail = scan::wilderness(state, need) == Choice::Wilderness;
        let (mut not_above, mut above) = (0, 0);
        let mut add = |hole: Hole| *(if hole.len <= tail { &mut not_above } else { &mut above }) += 1;
        if size - shorter > size / 8 {
            scan::fitting(map, 0, state.top, need).for_each(&mut add);
        } else {
            fitting().for_each(&mut add);
        }
        let count = not_above + above + usize::from(has_tail);
        if count == 0 {
            return Choice::Nowhere;
        }
        let mut rank = Generator(&mut state.cursor).below(count);
        if has_tail {
            if rank == not_above {
                return Choice::Wilderness;
            }
            rank -= usize::from(rank > not_above);
        }
        fitting().nth(rank).map_or(Choice::Nowhere, Choice::Hole)
    }
}

impl<'m> Section<'m> for ByRank<'m> {
    fn cells_for(granules: usize) -> usize {
        let words = words_for(granules);
        if words <= PLAIN_WORDS {
            return 0;
        }
        CLASS_COUNTS + counted_classes::cells_for(words) + ordered_tree::cells_for(most_long(granules))
    }

    fn add_parts(parts: &mut Parts<'_>, granules: usize, reach: Reach) {
        let words = words_for(granules);
        if words > PLAIN_WORDS {
            parts.add_whole(CLASS_COUNTS);
            counted_classes::add_parts(parts, words, words_for(reach.end));
            parts.add(ordered_tree::cells_for(most_long(granules)), ordered_tree::cells_for(most_long(reach.end)));
        }
    }

    fn new(mut cells: Cells<'m, u64>, granules: usize) -> Self {
        let words = words_for(granules);
        if words > PLAIN_WORDS {
            cells.set(TREE, (CLASS_COUNTS + counted_classes::cells_for(words)) as u64);
        }
        ByRank { cells }
    }
}

impl<'m> Update<'m> for ByRank<'m> {
    #[inline(always)]
    fn root_bits(&self, height: u8) -> u32 {
        FAN_BITS * (u32::from(height) + 1)
    }

    #[inline(never)]
    fn insert(&mut self, map: &mut BlockMap<'m>, height: u8, hole: Hole) {
        if hole.len <= CLASSES {
            Self::classes(map).count(&mut self.cells, height, hole, 1);
        } else {
            self.long().insert(&mut self.cells, Key::of(hole).0);
        }
    }

    #[inline(never)]
    fn remove(&mut self, map: &mut BlockMap<'m>, height: u8, hole: Hole) {
        if hole.len <= CLASSES {
            Self::classes(map).count(&mut self.cells, height, hole, -1);
        } else {
            self.long().remove(&mut self.cells, Key::of(hole).0);
        }
    }

    #[inline(never)]
    fn moved(&mut self, map: &mut BlockMap<'m>, height: u8, from: Hole, to: Hole) {
        if from.len > CLASSES && to.len > CLASSES {
            self.long().replace(&mut self.cells, Key::of(from).0, Key::of(to).0);
            return;
        }
        self.remove(map, height, from);
        if to.len != 0 {
            self.insert(map, height, to);
        }
    }

    fn raise(&mut self, map: &BlockMap<'m>, height: u8) {
        Self::classes(map).raise(&mut self.cells, height);
    }
}

impl<'m> Index<'m> for ByRank<'m> {
    #[inline(always)]
    fn reborrow(&mut self) -> impl Update<'_> {
        ByRank { cells: self.cells.reborrow() }
    }

    fn check(&self, map: &BlockMap<'m>, survey: &Survey) -> Result<(), usize> {
        let tree_at = CLASS_COUNTS + counted_classes::cells_for(map.words());
        if self.cells.get(TREE) != tree_at as u64 {
            return Err(0);
        }
        Self::classes(map).check(&self.cells, map, survey)?;
        let tree = self.long();
        if !tree.is_sound(&self.cells, most_long(survey.capacity)) || tree.size(&self.cells) != survey.long {
            return Err(0);
        }
        // There are as many keys as long holes, and a key for each.
        for word in 0..survey.words {
            let mut long = map.holes_in(word, map.pending_in(word)).filter(|hole| hole.len > CLASSES);
            if let Some(hole) = long.find(|&hole| !tree.contains(&self.cells, Key::of(hole).0)) {
                return Err(hole.start);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
