//! Verifying a heap: every invariant that its modules state, by a walk of the map.

use super::Fit;
use crate::counters::{Census, verify};
use crate::engine::Engine;
use crate::error::Violation;
use crate::index::{Choose, Index};
use crate::map::{BlockMap, Hole, words_for};

/// What a walk of the heap counts.
#[derive(Default)]
struct Found {
    blocks: u64,
    holes: u64,
    /// Holes longer than 64 granules that the index should hold.
    long: usize,
    pending: bool,
    live: usize,
}

impl<P: Choose> Fit<'_, P> {
    pub(super) fn check_all(&self) -> Result<(), Violation> {
        let state = &*self.state;
        let broken = |invariant, granule: usize| Err(Violation { invariant, offset: granule << state.shift() });
        if !state.is_plausible(P::KIND) {
            return broken("the state describes a heap of this policy", 0);
        }
        if !self.map.is_start(0) {
            return broken("granule 0 is a start", 0);
        }
        if !self.map.is_start(state.top) || self.map.is_hole(state.top) {
            return broken("the wilderness begins at a start that is not a hole", state.top);
        }
        if words_for(state.top) > 1 << (P::Index::LEVEL_BITS * (u32::from(state.height) + 1)) {
            return broken("the index is high enough", state.top);
        }
        check_words(&self.map, state.top)
            .or_else(|word| broken("words agree with the summary, and no start lies above the top", word * 64))?;
        let found = self.take_census()?;
        if self.map.has_summary() && (self.map.pending().len != 0) != found.pending {
            return broken("the pending hole is a hole", self.map.pending().start);
        }
        let words = words_for(state.top);
        if self.map.has_summary() && !self.index.holds_only_holes(&self.map, state.height, words, found.long) {
            return broken("the index holds nothing but holes", 0);
        }
        self.check_counters(&found)
    }

    fn take_census(&self) -> Result<Found, Violation> {
        let state = &*self.state;
        let broken = |invariant, granule: usize| Err(Violation { invariant, offset: granule << state.shift() });
        let mut found = Found::default();
        let (mut at, mut after_hole) = (0, false);
        while at < state.top {
            let next = self.map.next_start(at);
            if next > state.top {
                return broken("blocks end at the next start", at);
            }
            let hole = self.map.is_hole(at);
            if hole && after_hole {
                return broken("holes do not touch", at);
            }
            if hole {
                let hole = Hole { start: at, len: next - at };
                let pending = self.map.has_summary() && self.map.pending() == hole;
                if self.map.has_summary() && !pending && !self.index.contains(&self.map, state.height, hole) {
                    return broken("the index knows every hole", at);
                }
                found.long += usize::from(next - at > 64 && !pending);
                found.pending |= pending;
            } else {
                found.live += next - at;
            }
            found.blocks += 1;
            found.holes += u64::from(hole);
            (at, after_hole) = (next, hole);
        }
        if state.top < state.end {
            if after_hole {
                return broken("no hole touches the wilderness", state.top);
            }
            found.blocks += 1;
            found.holes += 1;
        }
        Ok(found)
    }

    fn check_counters(&self, found: &Found) -> Result<(), Violation> {
        let Some(counters) = self.counters() else { return Ok(()) };
        let shift = self.state.shift();
        verify(
            &counters,
            &Census {
                at_creation: self.state.blocks_at_creation(),
                blocks: found.blocks,
                holes: found.holes,
                live: (found.live << shift) as u64,
                heap_size: (self.state.end << shift) as u64,
            },
        )
    }
}

/// Checks the words of the map one by one; on failure, which one is wrong.
fn check_words(map: &BlockMap<'_>, top: usize) -> Result<(), usize> {
    for word in 0..=top / 64 {
        let beyond = if word == top / 64 { crate::bits::above(top % 64) } else { 0 };
        if map.starts(word) & beyond != 0 || !map.summary_agrees(word) {
            return Err(word);
        }
    }
    Ok(())
}
