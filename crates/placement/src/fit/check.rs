//! Verifies a heap: every invariant that its modules state, by a walk of the map.

use crate::error::Violation;
use crate::heap::Heap;
use crate::index::{Index, Survey};
use crate::map::words_for;
use crate::rules::PolicyKind;

/// Counts of a walk of the heap.
#[derive(Default)]
struct Found {
    blocks: u64,
    holes: u64,
    /// Holes longer than 64 granules that the index should contain.
    long: usize,
    live: usize,
}

impl<'m, I: Index<'m>> Heap<'m, I> {
    /// Whatever the metadata contains, nothing outside it is read: from the state to the index, each part is compared
    /// with the parts that were verified before it.
    pub(super) fn check(&self, policy: PolicyKind) -> Result<(), Violation> {
        let state = &*self.state;
        let violation = |invariant| move |granule: usize| Violation { invariant, offset: granule << state.shift() };
        if !state.is_plausible(policy) {
            return Err(violation("the state describes a heap of this policy")(0));
        }
        let height = |granules| (0..).find(|&height| words_for(granules) <= 1 << self.index.root_bits(height));
        if !(height(state.top)..=height(state.capacity)).contains(&Some(state.height)) {
            return Err(violation("the index is as high as the heap needs")(state.top));
        }
        self.map
            .check(state.top, state.reach())
            .map_err(violation("the map's words agree with its summary, and no start lies above the top"))?;
        self.map.check_pending(state.top).map_err(violation("the pending hole is a hole"))?;
        let found = self.take_census()?;
        if self.map.has_summary() {
            let (capacity, height) = (state.capacity, state.height);
            let survey = Survey { capacity, height, words: words_for(state.reach()), long: found.long };
            self.index.check(&self.map, &survey).map_err(violation("the index holds the holes and nothing else"))?;
        }
        self.check_counters(&self.census(state.blocks_at_creation(), found.blocks, found.holes, found.live))
    }

    fn take_census(&self) -> Result<Found, Violation> {
        let state = &*self.state;
        let broken = |invariant, granule: usize| Err(Violation { invariant, offset: granule << state.shift() });
        let mut found = Found::default();
        let (mut at, mut after_hole) = (0, false);
        while at < state.top {
            let next = self.map.next_start(at);
            let hole = self.map.is_hole(at);
            if hole && after_hole {
                return broken("holes do not touch", at);
            }
            if hole {
                let pending = self.map.has_summary() && self.map.pending().start == at && self.map.pending().len != 0;
                found.long += usize::from(next - at > 64 && !pending);
            } else if next - at <= usize::from(state.header) {
                return broken("a used block is longer than its header", at);
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
}
