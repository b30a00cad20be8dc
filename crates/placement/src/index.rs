//! The interface between the fits and their indexes of holes.
//!
//! An index contains every hole but the wilderness and the pending hole ([`BlockMap::pending`]). A removal or move of a
//! hole is passed to it before the map is changed, one hole at a time, and never while another is pending. Where the
//! pending hole begins, the max tree may still have an entry for holes that it absorbed ([`Update::discard`]).
//! A heap whose map has at most [`PLAIN_WORDS`](crate::map::PLAIN_WORDS) words has no index: it is scanned.

use crate::heap::Section;
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

/// The place that a policy chooses for a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// In this hole of the index.
    Hole(Hole),
    /// In the wilderness.
    Wilderness,
    /// No hole fits.
    Nowhere,
}

/// What changes an index. A trait of its own, so that functions that run rarely are compiled once for all indexes: see
/// [`AnyIndex`].
///
/// `height` is [`State::height`]: the index need not look at, nor keep up, anything above it.
pub trait Update<'m>: 'm {
    /// Returns the binary logarithm of how many words of the map a root at `height` covers.
    fn root_bits(&self, height: u8) -> u32;

    /// Inserts a hole.
    fn insert(&mut self, map: &mut BlockMap<'m>, height: u8, hole: Hole);

    /// Removes a hole.
    fn remove(&mut self, map: &mut BlockMap<'m>, height: u8, hole: Hole);

    /// Updates a hole that changes its start, its length or both; removes it when `to` is 0 granules long with the same
    /// start.
    #[inline(always)]
    fn moved(&mut self, map: &mut BlockMap<'m>, height: u8, from: Hole, to: Hole) {
        self.remove(map, height, from);
        if to.len != 0 {
            self.insert(map, height, to);
        }
    }

    /// Removes a hole that becomes a part of `merged`, which is inserted next.
    #[inline(always)]
    fn absorb(&mut self, map: &mut BlockMap<'m>, height: u8, hole: Hole, merged: Hole) {
        let _ = merged;
        self.remove(map, height, hole);
    }

    /// Whether a hole is replaced by a longer one with the same start by inserting that alone.
    #[inline(always)]
    fn lengthens(&self) -> bool {
        false
    }

    /// Removes what is left of the pending hole, which goes without having been inserted: holes that it absorbed.
    #[inline(always)]
    fn discard(&mut self, map: &mut BlockMap<'m>, height: u8, pending: Hole) {
        let _ = (map, height, pending);
    }

    /// Raises the root from `height` to `height + 1`.
    fn raise(&mut self, map: &BlockMap<'m>, height: u8);
}

/// An index of any type, behind a table of its functions.
pub(crate) type AnyIndex<'m> = dyn Update<'m> + 'm;

/// An ordered collection of the holes of a heap, in memory of its own that starts as zeros.
pub trait Index<'m>: Section<'m> + Update<'m> {
    /// The same index for a shorter time.
    fn reborrow(&mut self) -> impl Update<'_>;

    /// Checks that the index contains exactly those holes of `map` that it should, on all its levels, as far as
    /// `survey` reaches; otherwise returns a granule near the error. The map and the survey were verified; the cells of
    /// the index may contain anything.
    fn check(&self, map: &BlockMap<'m>, survey: &Survey) -> Result<(), usize>;
}

/// The facts about a heap that were verified before its index.
#[derive(Clone, Copy)]
pub struct Survey {
    /// The region's length in granules.
    pub(crate) capacity: usize,
    /// [`State::height`], no higher than the region needs.
    pub(crate) height: u8,
    /// Number of words of the map to check.
    pub(crate) words: usize,
    /// Number of holes longer than 64 granules, without the pending one.
    pub(crate) long: usize,
}

/// Returns the height at which a root covers `words` words of the map.
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

    /// As [`Choose::choose`], in bounded time if the policy has a way: a hole that fits is taken, though perhaps not
    /// the one that the policy takes.
    fn choose_soon<'m>(index: &Self::Index<'m>, map: &BlockMap<'m>, state: &mut State, need: &Need) -> Choice {
        Self::choose(index, map, state, need)
    }

    /// Whether the pending hole can be compared with the choice among the others, [`Choose::takes_pending`]. Otherwise
    /// it is inserted into the index before each choice.
    const WEIGHS_PENDING: bool = false;

    /// Returns whether the policy takes the pending hole, which fits, rather than `choice`, which [`Choose::choose`]
    /// returned while the index did not contain that hole.
    #[inline(always)]
    fn takes_pending(_pending: Hole, _choice: Choice, _state: &State) -> bool {
        false
    }

    /// Chooses the same place by a scan of every hole, where there is no index.
    fn scan(map: &BlockMap<'_>, state: &mut State, need: &Need) -> Choice;
}
