//! Verifies a buddy heap.

use super::FreeSets;
use crate::error::Violation;
use crate::heap::Heap;
use crate::rules::PolicyKind;

impl Heap<'_, FreeSets<'_>> {
    pub(super) fn check(&self) -> Result<(), Violation> {
        let state = &*self.state;
        let broken = |invariant, granule: usize| Err(Violation { invariant, offset: granule << state.shift() });
        if !state.is_plausible(PolicyKind::Buddy) || state.top != state.end {
            return broken("the state describes a buddy heap", 0);
        }
        if let Err(granule) = self.map.check(state.top, state.reach()) {
            return broken("the map's words agree with its summary, and no start lies above the top", granule);
        }
        if !self.index.are_in_place() {
            return broken("the free sets lie where they should", 0);
        }
        let (mut blocks, mut live) = (0, 0);
        let mut free = [0usize; 64];
        let mut at = 0;
        while at < state.end {
            let next = self.map.next_start(at);
            if !(next - at).is_power_of_two() || at & (next - at - 1) != 0 {
                return broken("a block is a power of two long and lies at a multiple of its length", at);
            }
            let order = (next - at).ilog2();
            if self.map.is_hole(at) {
                let buddy = at ^ (1 << order);
                if !self.index.contains(order, at) {
                    return broken("the free sets know every hole", at);
                }
                if buddy + (1 << order) <= state.end && self.index.contains(order, buddy) {
                    return broken("no two buddies are free", at);
                }
                free[order as usize] += 1;
            } else if next - at <= usize::from(state.header) {
                return broken("a used block is longer than its header", at);
            } else {
                live += next - at;
            }
            blocks += 1;
            at = next;
        }
        if self.index.check(state.reach(), &free).is_err() {
            return broken("the free sets hold nothing but holes", 0);
        }
        let holes = free.iter().sum::<usize>() as u64;
        self.check_counters(&self.census(self.blocks_at_creation(), blocks, holes, live))
    }
}
