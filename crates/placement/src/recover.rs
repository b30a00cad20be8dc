//! Recovery of a heap whose user died at any moment.
//!
//! The caller says what the rules are. Recovery trusts these parts of the metadata: the heap's end and top in the
//! state, as far as they agree with each other and with the map, the start bits of the map and, at starts, its hole
//! bits. It also trusts the [`Change`] of the operation in progress, if there was one: the map is not trusted in its
//! range, because any of the operation's stores may be missing. Everything else is rebuilt from these.
//!
//! Recovery may die as well and is then started again. Each of its stores to a trusted part leaves a state from which
//! the next attempt reaches the same result. Where the order of two stores matters, a compiler fence separates them.
//! The processor needs no fence: a process that dies has made all stores up to some instruction, and none after it.

use core::fmt;
use core::sync::atomic::{Ordering, compiler_fence};

use crate::error::{RulesError, Violation};
use crate::map::BlockMap;
use crate::noted::Change;
use crate::state::State;

/// Why a heap could not be recovered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoverError {
    /// The metadata is not that of a heap of this version and policy, or does not fit the capacity.
    Rules(RulesError),
    /// The trusted parts contradict each other.
    Broken(Violation),
}

impl From<RulesError> for RecoverError {
    fn from(error: RulesError) -> Self {
        RecoverError::Rules(error)
    }
}

impl From<Violation> for RecoverError {
    fn from(violation: Violation) -> Self {
        RecoverError::Broken(violation)
    }
}

impl fmt::Display for RecoverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecoverError::Rules(error) => error.fmt(f),
            RecoverError::Broken(violation) => violation.fmt(f),
        }
    }
}

impl core::error::Error for RecoverError {}

/// A change in granules, verified to be possible in a heap of `capacity`.
struct Repaint {
    from: usize,
    to: usize,
    used_from: usize,
    used_to: usize,
}

impl Repaint {
    fn of(change: Change, state: &State) -> Result<Repaint, Violation> {
        let Change { start, end, used_start, used_end } = change;
        let granule = 1usize << state.shift();
        let in_granules = (start | end | used_start | used_end) & (granule - 1) == 0;
        let in_order = start < end && start <= used_start && used_start <= used_end && used_end <= end;
        if !in_granules || !in_order || end >> state.shift() > state.capacity {
            return Err(Violation { invariant: "the change under way lies within the heap", offset: start });
        }
        let shift = state.shift();
        Ok(Repaint {
            from: start >> shift,
            to: end >> shift,
            used_from: used_start >> shift,
            used_to: used_end >> shift,
        })
    }

    /// Applies the change to the map, whatever part of it the map already shows.
    fn paint(&self, map: &mut BlockMap<'_>) {
        map.wipe(self.from + 1, self.to);
        if self.used_from > self.from || self.used_to == self.used_from {
            map.put_hole(self.from);
        }
        if self.used_to > self.used_from {
            map.put_block(self.used_from);
        }
        if self.used_to > self.used_from && self.used_to < self.to {
            map.put_hole(self.used_to);
        }
    }
}

/// Makes the map show every block below the heap's end, with the free tail as an ordinary hole, and nothing else.
pub(crate) fn settle(map: &mut BlockMap<'_>, state: &mut State, change: Option<Change>) -> Result<(), Violation> {
    let broken = |invariant, granule: usize| Violation { invariant, offset: granule << state.shift() };
    let repaint = change.map(|change| Repaint::of(change, state)).transpose()?;
    let end = repaint.as_ref().map_or(state.end, |repaint| state.end.max(repaint.to));
    if end > 0 && !map.is_start(0) {
        return Err(broken("granule 0 is a start", 0));
    }
    let reaches_end = repaint.as_ref().is_some_and(|repaint| repaint.to == end);
    let has_wilderness = !reaches_end && state.top < end;
    if state.top > end {
        return Err(broken("the heap's end lies behind its blocks", end));
    }
    if has_wilderness && !map.is_start(state.top) {
        return Err(broken("the wilderness begins at a start", state.top));
    }
    if has_wilderness && map.next_start_below(state.top, end) != end {
        return Err(broken("no block lies behind the wilderness", state.top));
    }
    // Before this, nothing of the map is lost.
    map.wipe_from(end, state.capacity);
    if has_wilderness {
        map.put_hole(state.top);
    }
    if let Some(repaint) = repaint {
        if !map.is_in_hole(repaint.from) && !map.is_start(repaint.from) {
            return Err(broken("a change begins where a block starts, or in a hole", repaint.from));
        }
        repaint.paint(map);
        if repaint.to < end && !map.is_start(repaint.to) && !map.is_in_hole(repaint.to) {
            return Err(broken("a change ends where a block starts, or in a hole", repaint.to));
        }
    }
    // Only after every block is marked may the state record that there is no free tail besides them.
    compiler_fence(Ordering::SeqCst);
    state.end = end;
    state.top = end;
    compiler_fence(Ordering::SeqCst);
    Ok(())
}
