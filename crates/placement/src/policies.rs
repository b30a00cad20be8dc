//! The fits: how each policy searches, and how it weighs the wilderness.

use crate::classes;
use crate::index::by_length::{BestBins, ByLength, GoodBins};
use crate::index::by_rank::ByRank;
use crate::index::max_tree::MaxTree;
use crate::index::{Choice, Choose, scan};
use crate::map::{BlockMap, Hole};
use crate::rules::PolicyKind;
use crate::state::{Need, State};

/// The most misaligned holes that [`Choose::choose_soon`] looks at under first fit.
const TRIES: usize = 16;

/// First fit: the lowest hole that fits. The wilderness is the highest hole, so it comes last.
pub enum FirstFit {}

/// Next fit: the hole that contains or starts at the rover, then higher ones, then from the bottom up to the rover.
/// The rover is just past the block placed last.
pub enum NextFit {}

/// Worst fit: the largest hole, if it fits; ties to the lowest address. Only the largest hole is considered: a request
/// that its alignment keeps out of it goes to the wilderness, or fails, but never goes to a smaller hole.
pub enum WorstFit {}

/// Best fit: the smallest hole that fits; ties to the lowest address.
pub enum BestFit {}

/// Returns `hole`, which is long enough, if it fits, otherwise the lowest indexed hole behind it that fits.
#[inline(always)]
fn fitting_from<'m>(
    tree: &MaxTree<'m>,
    map: &BlockMap<'m>,
    state: &State,
    need: &Need,
    mut hole: Hole,
) -> Option<Hole> {
    while !need.fits(hole.start, hole.len) {
        hole = tree.first_from(map, state.height, hole.end(), need.len)?;
    }
    Some(hole)
}

/// Returns the lowest indexed hole that fits; the search is faster if it is near granule `guess`.
#[inline(always)]
fn first_fitting<'m>(tree: &MaxTree<'m>, map: &BlockMap<'m>, state: &State, need: &Need) -> Option<Hole> {
    let hole = tree.first(map, state.height, need.len)?;
    fitting_from(tree, map, state, need, hole)
}

impl Choose for FirstFit {
    const KIND: PolicyKind = PolicyKind::First;
    type Index<'m> = MaxTree<'m>;

    #[inline(always)]
    fn choose<'m>(index: &MaxTree<'m>, map: &BlockMap<'m>, state: &mut State, need: &Need) -> Choice {
        match first_fitting(index, map, state, need) {
            Some(hole) => Choice::Hole(hole),
            None => scan::wilderness(state, need),
        }
    }

    const WEIGHS_PENDING: bool = true;

    #[inline(always)]
    fn takes_pending(pending: Hole, choice: Choice, _: &State) -> bool {
        match choice {
            // The choice can be the pending hole itself, which a search finds in the map when it passes that word.
            Choice::Hole(hole) => pending.start <= hole.start,
            Choice::Wilderness | Choice::Nowhere => true,
        }
    }

    fn choose_soon<'m>(index: &MaxTree<'m>, map: &BlockMap<'m>, state: &mut State, need: &Need) -> Choice {
        let mut candidate = index.first(map, state.height, need.len);
        for _ in 0..TRIES {
            match candidate {
                None => return scan::wilderness(state, need),
                Some(hole) if need.fits(hole.start, hole.len) => return Choice::Hole(hole),
                Some(hole) => candidate = index.first_from(map, state.height, hole.end(), need.len),
            }
        }
        match index.first(map, state.height, need.longest()) {
            Some(hole) => Choice::Hole(hole),
            None => scan::wilderness(state, need),
        }
    }

    fn scan(map: &BlockMap<'_>, state: &mut State, need: &Need) -> Choice {
        scan::first(map, state, need)
    }
}

impl Choose for NextFit {
    const KIND: PolicyKind = PolicyKind::Next;
    type Index<'m> = MaxTree<'m>;

    #[inline(always)]
    fn choose<'m>(index: &MaxTree<'m>, map: &BlockMap<'m>, state: &mut State, need: &Need) -> Choice {
        let rover = scan::rover(state);
        if rover < state.top
            && let Some(hole) = index.first_from(map, state.height, map.start_of(rover), need.len)
            && let Some(hole) = fitting_from(index, map, state, need, hole)
        {
            return Choice::Hole(hole);
        }
        match scan::wilderness(state, need) {
            Choice::Nowhere => match first_fitting(index, map, state, need) {
                Some(hole) => Choice::Hole(hole),
                None => Choice::Nowhere,
            },
            choice => choice,
        }
    }

    fn scan(map: &BlockMap<'_>, state: &mut State, need: &Need) -> Choice {
        scan::next(map, state, need)
    }
}

impl Choose for WorstFit {
    const KIND: PolicyKind = PolicyKind::Worst;
    type Index<'m> = MaxTree<'m>;

    #[inline(always)]
    fn choose<'m>(index: &MaxTree<'m>, map: &BlockMap<'m>, state: &mut State, need: &Need) -> Choice {
        let largest = index.largest(state.height);
        if largest < need.len || largest < state.wilderness() {
            return scan::weigh_largest(None, state, need);
        }
        scan::weigh_largest(index.largest_hole(map, state.height, largest), state, need)
    }

    fn scan(map: &BlockMap<'_>, state: &mut State, need: &Need) -> Choice {
        scan::worst(map, state, need)
    }
}

impl Choose for BestFit {
    const KIND: PolicyKind = PolicyKind::Best;
    type Index<'m> = ByLength<'m, BestBins>;

    #[inline(always)]
    fn choose<'m>(index: &Self::Index<'m>, map: &BlockMap<'m>, state: &mut State, need: &Need) -> Choice {
        let best = if need.align == 1 {
            index.smallest_from(map, state.height, need.len)
        } else {
            index.smallest_fitting(map, state.height, need)
        };
        scan::weigh_smallest(best, state, need)
    }

    const WEIGHS_PENDING: bool = true;

    #[inline(always)]
    fn takes_pending(pending: Hole, choice: Choice, state: &State) -> bool {
        match choice {
            // The choice can be the pending hole itself: a search finds it in the map when it passes that word.
            Choice::Hole(hole) => (pending.len < hole.len) | (pending.len == hole.len) & (pending.start < hole.start),
            Choice::Wilderness => pending.len <= state.wilderness(),
            Choice::Nowhere => true,
        }
    }

    fn scan(map: &BlockMap<'_>, state: &mut State, need: &Need) -> Choice {
        scan::best(map, state, need)
    }
}

/// Random fit: any of the holes that fit, all equally likely. With `c` holes that fit, in the order of (size, address),
/// the one at [`Generator::below`](crate::Generator::below)`(c)` is taken; the generator does not move when nothing
/// fits.
pub enum RandomFit {}

impl Choose for RandomFit {
    const KIND: PolicyKind = PolicyKind::Random;
    type Index<'m> = ByRank<'m>;

    #[inline(always)]
    fn choose<'m>(index: &ByRank<'m>, map: &BlockMap<'m>, state: &mut State, need: &Need) -> Choice {
        index.choose(map, state, need)
    }

    fn scan(map: &BlockMap<'_>, state: &mut State, need: &Need) -> Choice {
        scan::random(map, state, need)
    }
}

/// Good fit: sizes fall into classes, exact up to 64 granules and eight to a doubling above. The request is rounded up
/// to a class, and the lowest hole of the smallest class that is not empty is taken; the wilderness only when there is
/// none. An aligned request is taken to need its length, its alignment less one granule, and the shortest hole that
/// there may be: enough for any gap that its alignment could leave.
pub enum GoodFit {}

impl Choose for GoodFit {
    const KIND: PolicyKind = PolicyKind::Good;
    type Index<'m> = ByLength<'m, GoodBins>;

    #[inline(always)]
    fn choose<'m>(index: &Self::Index<'m>, map: &BlockMap<'m>, state: &mut State, need: &Need) -> Choice {
        let len = need.longest();
        let found = match index.shortest_class_from(map, state.height, len) {
            Some(hole) => Some(hole),
            None => index.first_of_bins_from(map, classes::class_that_holds(len).saturating_sub(classes::EXACT + 1)),
        };
        match found {
            Some(hole) => Choice::Hole(hole),
            None => scan::wilderness(state, need),
        }
    }

    fn scan(map: &BlockMap<'_>, state: &mut State, need: &Need) -> Choice {
        scan::good(map, state, need)
    }
}
