//! The policies by a scan of every hole, for regions too small for an index to pay.

use crate::bits::lowest;
use crate::classes;
use crate::generator::Generator;
use crate::index::Choice;
use crate::map::{BlockMap, Hole};
use crate::state::{Need, State};

/// Returns the holes that start at or above `from` and below the wilderness, in address order.
pub(crate) fn holes_from<'a>(map: &'a BlockMap<'_>, from: usize, top: usize) -> impl Iterator<Item = Hole> + 'a {
    let mut word = from / 64;
    let mut holes = if from < top { map.holes(word) & !crate::bits::below(from % 64) } else { 0 };
    core::iter::from_fn(move || {
        while holes == 0 {
            word += 1;
            if word * 64 >= top {
                return None;
            }
            holes = map.holes(word);
        }
        let bit = lowest(holes);
        holes &= holes - 1;
        Some(map.hole_at(word * 64 + bit))
    })
}

/// Returns the wilderness, when it can contain the request.
#[inline(always)]
pub(crate) fn wilderness(state: &State, need: &Need) -> Choice {
    if need.fits(state.top, state.wilderness()) { Choice::Wilderness } else { Choice::Nowhere }
}

/// Returns those of these holes that the request fits into.
pub(crate) fn fitting<'a>(
    map: &'a BlockMap<'_>,
    from: usize,
    top: usize,
    need: &'a Need,
) -> impl Iterator<Item = Hole> + 'a {
    holes_from(map, from, top).filter(|hole| need.fits(hole.start, hole.len))
}

pub(crate) fn first(map: &BlockMap<'_>, state: &State, need: &Need) -> Choice {
    match fitting(map, 0, state.top, need).next() {
        Some(hole) => Choice::Hole(hole),
        None => wilderness(state, need),
    }
}

/// Returns where next fit continues: the bottom, once the rover has reached the heap's end.
#[inline(always)]
pub(crate) fn rover(state: &State) -> usize {
    if state.cursor < state.end as u64 { state.cursor as usize } else { 0 }
}

pub(crate) fn next(map: &BlockMap<'_>, state: &State, need: &Need) -> Choice {
    let rover = rover(state);
    let from = if rover < state.top { map.start_of(rover) } else { state.top };
    if let Some(hole) = fitting(map, from, state.top, need).next() {
        return Choice::Hole(hole);
    }
    match wilderness(state, need) {
        Choice::Nowhere => match fitting(map, 0, state.top, need).next() {
            Some(hole) => Choice::Hole(hole),
            None => Choice::Nowhere,
        },
        choice => choice,
    }
}

pub(crate) fn best(map: &BlockMap<'_>, state: &State, need: &Need) -> Choice {
    let best = fitting(map, 0, state.top, need).min_by_key(|hole| hole.len);
    weigh_smallest(best, state, need)
}

/// Returns the smaller of the best hole and the wilderness; the hole when they are equal, since it lies lower.
#[inline(always)]
pub(crate) fn weigh_smallest(best: Option<Hole>, state: &State, need: &Need) -> Choice {
    match (best, wilderness(state, need)) {
        (Some(hole), Choice::Wilderness) if state.wilderness() < hole.len => Choice::Wilderness,
        (Some(hole), _) => Choice::Hole(hole),
        (None, choice) => choice,
    }
}

pub(crate) fn worst(map: &BlockMap<'_>, state: &State, need: &Need) -> Choice {
    // `max_by_key` takes the last of equals; reversing the comparison's tie by the address takes the lowest.
    let largest = holes_from(map, 0, state.top).max_by_key(|hole| (hole.len, core::cmp::Reverse(hole.start)));
    weigh_largest(largest, state, need)
}

/// Returns the larger of the largest hole and the wilderness, and the hole when they are equal; the wilderness also
/// when alignment keeps the request out of that hole.
#[inline(always)]
pub(crate) fn weigh_largest(largest: Option<Hole>, state: &State, need: &Need) -> Choice {
    match largest {
        Some(hole) if hole.len >= state.wilderness() && need.fits(hole.start, hole.len) => Choice::Hole(hole),
        _ => wilderness(state, need),
    }
}

/// Calls `see` with every hole that fits, the wilderness included. (Not generic, so that it is compiled once.)
fn each_fitting(map: &BlockMap<'_>, state: &State, need: &Need, see: &mut dyn FnMut(Hole)) {
    fitting(map, 0, state.top, need).for_each(&mut *see);
    let tail = Hole { start: state.top, len: state.wilderness() };
    if need.fits(tail.start, tail.len) {
        see(tail);
    }
}

/// The hole at a random place among those that fit, in the order of (size, address), the wilderness included.
pub(crate) fn random(map: &BlockMap<'_>, state: &mut State, need: &Need) -> Choice {
    let mut count = 0;
    each_fitting(map, state, need, &mut |_| count += 1);
    if count == 0 {
        return Choice::Nowhere;
    }
    let mut rank = Generator(&mut state.cursor).below(count);
    let mut floor = 0;
    loop {
        // The next size in order, how many holes have it, and the one of them at `rank`.
        let (mut len, mut of_this_size, mut chosen) = (usize::MAX, 0, None);
        each_fitting(map, state, need, &mut |hole| {
            if hole.len > floor && hole.len < len {
                (len, of_this_size, chosen) = (hole.len, 0, None);
            }
            if hole.len == len {
                if of_this_size == rank {
                    chosen = Some(hole);
                }
                of_this_size += 1;
            }
        });
        match chosen {
            Some(hole) if hole.start == state.top => return Choice::Wilderness,
            Some(hole) => return Choice::Hole(hole),
            None if of_this_size == 0 => return Choice::Nowhere,
            None => (rank, floor) = (rank - of_this_size, len),
        }
    }
}

pub(crate) fn good(map: &BlockMap<'_>, state: &State, need: &Need) -> Choice {
    let class = classes::class_that_holds(need.longest());
    let best = holes_from(map, 0, state.top)
        .filter(|hole| classes::class_of(hole.len) >= class)
        .min_by_key(|hole| (classes::class_of(hole.len), hole.start));
    match best {
        Some(hole) => Choice::Hole(hole),
        None => wilderness(state, need),
    }
}
