//! Verifying a buddy heap.

use super::Buddy;
use crate::engine::Engine;
use crate::error::Violation;
use crate::rules::PolicyKind;

impl Buddy<'_> {
    pub(super) fn check_all(&self) -> Result<(), Violation> {
        let state = &*self.state;
        let broken = |invariant, granule: usize| Err(Violation { invariant, offset: granule << state.shift() });
        if !state.is_plausible(PolicyKind::Buddy) || state.top != state.end {
            return broken("the state describes a buddy heap", 0);
        }
        let (mut blocks, mut live) = (0, 0);
        let mut free = [0usize; 64];
        let mut at = 0;
        while at < state.end {
            if !self.map.is_start(at) {
                return broken("blocks follow one another", at);
            }
            let next = self.map.next_start(at);
            if next > state.end || !(next - at).is_power_of_two() || at & (next - at - 1) != 0 {
                return broken("a block is a power of two long and lies at a multiple of its length", at);
            }
            let order = (next - at).ilog2();
            if self.map.is_hole(at) {
                let buddy = at ^ (1 << order);
                if !self.free.contains(order, at) {
                    return broken("the free sets know every hole", at);
                }
                if buddy + (1 << order) <= state.end && self.free.contains(order, buddy) {
                    return broken("no two buddies are free", at);
                }
                free[order as usize] += 1;
            } else {
                live += next - at;
            }
            blocks += 1;
            at = next;
        }
        for order in 0..=state.capacity.ilog2() {
            if self.free.count(order) != free[order as usize] {
                return broken("the free sets hold nothing but holes", 0);
            }
            if self.free.smallest_order_from(order).is_some_and(|found| found == order) != (free[order as usize] > 0) {
                return broken("the orders with free blocks are known", 0);
            }
        }
        self.check_counters(blocks, free.iter().sum::<usize>() as u64, live)
    }

    fn check_counters(&self, blocks: u64, holes: u64, live: usize) -> Result<(), Violation> {
        let Some(counters) = self.counters() else { return Ok(()) };
        let shift = self.state.shift();
        crate::counters::verify(
            &counters,
            &crate::counters::Census {
                at_creation: self.blocks_at_creation(),
                blocks,
                holes,
                live: (live << shift) as u64,
                heap_size: (self.state.end << shift) as u64,
            },
        )
    }
}
