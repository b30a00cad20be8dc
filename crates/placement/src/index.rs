//! What the fits ask of an index of holes.
//!
//! An index holds every hole but the wilderness and the pending hole ([`BlockMap::pending`]). It is told of a hole that goes
//! or moves before the map shows it, one hole at a time, and never while another is pending.
//! A heap whose map has at most [`PLAIN_WORDS`](crate::map::PLAIN_WORDS) words has no index: it is scanned.

use crate::cells::Cells;
use crate::map::{BlockMap, Hole};
use crate::rules::PolicyKind;
use crate::state::{Need, State};

pub(crate) mod by_length;
pub(crate) mod by_rank;
pub(crate) mod class_map;
pub(crate) mod counted_classes;
pub(crate) mod max_tree;
pub(crate) mod min_trie;
pub(crate) mod ordered_tree;
pub(crate) mod scan;

/// Where a policy wants a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// In this hole of the index.
    Hole(Hole),
    /// In the wilderness.
    Wilderness,
    /// Nothing fits.
    Nowhere,
}

/// An ordered collection of the holes of a heap, in memory of its own that starts as zeros.
///
/// `height` is [`State::height`]: the index need not look at, nor keep up, anything above it.
pub trait Index<'m>: Sized {
    /// The binary logarithm of how many nodes of one level a node of the next covers; a root at height `h` covers
    /// `1 << (LEVEL_BITS * (h + 1))` words of the map.
    const LEVEL_BITS: u32;

    /// How many cells the index of a region of `granules` takes.
    fn cells_for(granules: usize) -> usize;

    /// The index in `cells`, all zeros for an empty one.
    fn new(cells: Cells<'m, u64>, granules: usize) -> Self;

    /// A hole appears.
    fn insert(&mut self, map: &mut BlockMap<'m>, height: u8, hole: Hole);

    /// A hole goes.
    fn remove(&mut self, map: &mut BlockMap<'m>, height: u8, hole: Hole);

    /// A hole changes its start, its length or both.
    #[inline(always)]
    fn moved(&mut self, map: &mut BlockMap<'m>, height: u8, from: Hole, to: Hole) {
        self.remove(map, height, from);
        self.insert(map, height, to);
    }

    /// The root rises from `height` to `height + 1`.
    fn raise(&mut self, map: &BlockMap<'m>, height: u8);

    /// Whether the index holds the holes of `map` that it should and nothing else, on all its levels, as far as
    /// `survey` reaches; else a granule near which it does not. The map and the survey were found sound; the cells of
    /// the index may hold anything.
    fn check(&self, map: &BlockMap<'m>, survey: &Survey) -> Result<(), usize>;
}

/// What is known of a heap before its index is checked.
#[derive(Clone, Copy)]
pub struct Survey {
    /// The region's length in granules.
    pub(crate) capacity: usize,
    /// [`State::height`], no higher than the region needs.
    pub(crate) height: u8,
    /// How many words of the map there are to look at.
    pub(crate) words: usize,
    /// How many holes are longer than 64 granules, the pending one left aside.
    pub(crate) long: usize,
}

/// How high a root must stand to cover `words` words of the map.
pub(crate) const fn height_over(words: usize, level_bits: u32) -> u32 {
    let bits = usize::BITS - (words - 1).leading_zeros();
    bits.div_ceil(level_bits).saturating_sub(1)
}

/// A policy among the fits: an index and a choice.
pub trait Choose {
    /// Its name.
    const KIND: PolicyKind;

    /// The index it searches.
    type Index<'m>: Index<'m>;

    /// Chooses a place with the index.
    fn choose<'m>(index: &Self::Index<'m>, map: &BlockMap<'m>, state: &mut State, need: &Need) -> Choice;

    /// Chooses the same place by looking at every hole, where there is no index.
    fn scan(map: &BlockMap<'_>, state: &mut State, need: &Need) -> Choice;
}
