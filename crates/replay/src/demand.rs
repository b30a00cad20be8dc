//! The requirements of a trace that do not depend on the policy.

use std::collections::HashSet;
use std::ops::ControlFlow;

use heapwright_placement::{MIN_GRANULES, PolicyKind, Rules};
use heapwright_rules::Requests;
use heapwright_trace::Event;
use serde::Serialize;

use crate::blocks::{Blocks, Placed};
use crate::error::ReplayError;
use crate::model::requested;
use crate::recording::Recording;

/// The requirements of a trace under given rules, independent of the policy. Sizes in bytes.
///
/// The size of a block is its header plus the requested size, rounded up to granules; for buddies, to a power of two
/// granules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Demand {
    /// The number of allocations.
    pub requests: u64,
    /// The number of resizes.
    pub resizes: u64,
    /// The number of allocations at an alignment above the granule.
    pub aligned: u64,
    /// The peak of the requested bytes of all live blocks.
    pub peak_requested: u64,
    /// The peak of the sizes of all live blocks: a lower bound for every heap that does not move blocks.
    pub peak_rounded: u64,
    /// The peak of the sizes of all live blocks under the buddy policy.
    pub peak_doubled: u64,
    /// The size of the largest block.
    pub largest_rounded: u64,
    /// The size of the largest block under the buddy policy.
    pub largest_doubled: u64,
    /// An upper bound: in a fixed region of this length or more, every request of the trace succeeds under every policy
    /// that considers every hole (first, next, best, worst and random fit).
    ///
    /// A request fails only if each of at most `blocks + 1` holes is too short for it. The region is then shorter than
    /// the blocks plus `blocks + 1` holes of the longest size that is too short. Heaps by odd rules
    /// ([`Model::odd_reason`](crate::Model::odd_reason)) may need more: holes that are not merged are more.
    #[serde(skip)]
    pub always_enough: u64,
    /// An upper bound for buddies: in a fixed region of this length or more, every request of the trace succeeds.
    /// `None` if none does: a request behind a header names an alignment that no payload has.
    ///
    /// A request for a block of `n` bytes fails only if a part of each place for it, a multiple of `n`, is used. A live
    /// block of at most `n` bytes uses a part of one place, a longer one its length. The region is then shorter than
    /// one place more than the live blocks use.
    #[serde(skip)]
    pub always_enough_doubled: Option<u64>,
}

impl Demand {
    /// Computes the demand of `recording`. Time: a fraction of that of a replay.
    ///
    /// # Errors
    /// [`ReplayError::Rules`], [`ReplayError::Trace`].
    pub fn of(recording: &Recording, rules: &Rules, requests: &Requests) -> Result<Demand, ReplayError> {
        rules.validate()?;
        let mut tally = Tally::new(rules, requests);
        let _ = recording.try_for_each(|event| {
            tally.add(event);
            ControlFlow::Continue(())
        })?;
        Ok(tally.demand)
    }

    /// Returns a lower bound of the region under `policy`, in bytes: the peak of the sizes of all live blocks.
    #[must_use]
    pub fn least_region(&self, policy: PolicyKind, rules: &Rules) -> u64 {
        let shortest = MIN_GRANULES as u64 * u64::from(rules.granule);
        let peak = if policy == PolicyKind::Buddy { self.peak_doubled } else { self.peak_rounded };
        peak.max(shortest)
    }

    /// Returns an upper bound of the region under `policy`, in bytes: in a fixed region of this length or more, every
    /// request of the trace succeeds. `None` if no region suffices, and under good fit, which passes over holes that
    /// are long enough.
    #[must_use]
    pub fn enough_region(&self, policy: PolicyKind, rules: &Rules) -> Option<u64> {
        let shortest = MIN_GRANULES as u64 * u64::from(rules.granule);
        let enough = match policy {
            PolicyKind::Good => None,
            PolicyKind::Buddy => self.always_enough_doubled,
            _ => Some(self.always_enough),
        };
        Some(enough?.max(shortest))
    }
}

/// The running totals.
struct Tally {
    requests: Requests,
    granule: u64,
    header: u64,
    /// The longest remainder that a block may keep, and the shortest gap in front of a block, in bytes.
    longest_remainder: u64,
    shortest_gap: u64,
    /// The address of the first payload: that of a header's end.
    first_payload: u64,
    /// The live blocks by number. Their offsets are unused: each is the alignment of the block.
    blocks: Blocks,
    /// The blocks of the trace that are null: the rules give them no block.
    nulls: HashSet<u64>,
    /// The live blocks by their lengths under the buddy policy.
    buddies: Buddies,
    live: u64,
    requested: u64,
    rounded: u64,
    doubled: u64,
    demand: Demand,
}

impl Tally {
    fn new(rules: &Rules, requests: &Requests) -> Tally {
        let granule = u64::from(rules.granule);
        let shortest_gap = u64::from(rules.min_remainder.max(1)).next_multiple_of(granule);
        Tally {
            requests: *requests,
            granule,
            header: u64::from(rules.header),
            longest_remainder: shortest_gap - granule,
            shortest_gap,
            first_payload: rules.phase as u64 + u64::from(rules.header),
            blocks: Blocks::default(),
            nulls: HashSet::new(),
            buddies: Buddies { counts: [0; 64] },
            live: 0,
            requested: 0,
            rounded: 0,
            doubled: 0,
            demand: Demand { always_enough_doubled: Some(0), ..Demand::default() },
        }
    }

    fn add(&mut self, event: &Event) {
        match *event {
            Event::Allocate { block, kind, size, align } => self.allocate(block, size, kind.named_align(align)),
            Event::Resize { block, becomes, size } => self.resize(block, becomes, size),
            Event::Free { block } => self.free(block),
            _ => {}
        }
    }

    fn allocate(&mut self, block: u64, size: u64, named: u64) {
        let Some((bytes, align)) = requested(&self.requests, size, named) else {
            self.nulls.insert(block);
            return;
        };
        self.demand.requests += 1;
        self.demand.aligned += u64::from(align as u64 > self.granule);
        self.place(bytes as u64, align as u64);
        self.add_live(block, bytes as u64, align as u64);
    }

    fn free(&mut self, block: u64) {
        if self.remove(block).is_none() {
            self.nulls.remove(&block);
        }
    }

    fn resize(&mut self, block: u64, becomes: u64, size: u64) {
        if self.blocks.get(block).is_none() {
            if self.nulls.remove(&block) {
                self.allocate(becomes, size, 1);
            }
            return;
        }
        let bytes = self.requests.raised(size as usize) as u64;
        let align = self.requests.align(1) as u64;
        self.demand.resizes += 1;
        // Unless it is resized in place, the old block is live until its contents are in the new one.
        self.place(bytes, align);
        self.remove(block);
        self.add_live(becomes, bytes, align);
    }

    /// Raises the upper bounds, so that a request for `size` bytes succeeds next to all live blocks.
    fn place(&mut self, size: u64, align: u64) {
        let gap = if align > self.granule { (align - self.granule).saturating_add(self.shortest_gap) } else { 0 };
        let too_short = self.rounded_size(size).saturating_add(gap) - self.granule;
        let holes = (self.live + 1).saturating_mul(too_short);
        let blocks = self.rounded.saturating_add(self.live.saturating_mul(self.longest_remainder));
        let enough = blocks.saturating_add(holes).saturating_add(self.granule);
        self.demand.always_enough = self.demand.always_enough.max(enough);
        let doubled = self.buddies.enough_for(self.buddy_size(size, align));
        let is_possible = align <= self.granule || self.first_payload.is_multiple_of(align);
        self.demand.always_enough_doubled =
            self.demand.always_enough_doubled.filter(|_| is_possible).map(|enough| enough.max(doubled));
    }

    fn add_live(&mut self, number: u64, size: u64, align: u64) {
        // A block that exceeds the address space is never live.
        let Ok(bytes) = usize::try_from(size) else { return };
        self.blocks.insert(number, Placed { offset: align as usize, size: bytes });
        self.buddies.add(self.buddy_size(size, align));
        let (rounded, doubled) = (self.rounded_size(size), self.doubled_size(size));
        self.live += 1;
        self.requested = self.requested.saturating_add(size);
        self.rounded = self.rounded.saturating_add(rounded);
        self.doubled = self.doubled.saturating_add(doubled);
        let demand = &mut self.demand;
        demand.peak_requested = demand.peak_requested.max(self.requested);
        demand.peak_rounded = demand.peak_rounded.max(self.rounded);
        demand.peak_doubled = demand.peak_doubled.max(self.doubled);
        demand.largest_rounded = demand.largest_rounded.max(rounded);
        demand.largest_doubled = demand.largest_doubled.max(doubled);
    }

    fn remove(&mut self, number: u64) -> Option<Placed> {
        let block = self.blocks.remove(number)?;
        let (size, align) = (block.size as u64, block.offset as u64);
        self.buddies.remove(self.buddy_size(size, align));
        self.live -= 1;
        self.requested = self.requested.saturating_sub(size);
        self.rounded = self.rounded.saturating_sub(self.rounded_size(size));
        self.doubled = self.doubled.saturating_sub(self.doubled_size(size));
        Some(block)
    }

    /// Returns the size of a block for a request of `size` bytes.
    fn rounded_size(&self, size: u64) -> u64 {
        let most = u64::MAX / self.granule;
        size.max(1).div_ceil(self.granule).saturating_add(self.header / self.granule).min(most) * self.granule
    }

    /// Returns the size of a block for a request of `size` bytes under the buddy policy.
    fn doubled_size(&self, size: u64) -> u64 {
        let granules = self.rounded_size(size) / self.granule;
        granules.checked_next_power_of_two().map_or(u64::MAX, |granules| granules.saturating_mul(self.granule))
    }

    /// Returns the most bytes that a block takes under the buddy policy: its alignment, where that is more than its
    /// size.
    fn buddy_size(&self, size: u64, align: u64) -> u64 {
        self.doubled_size(size).max(align)
    }
}

/// The lengths of the live blocks under the buddy policy, in bytes: powers of two.
struct Buddies {
    /// The numbers of blocks by the logarithm of their lengths.
    counts: [u64; 64],
}

impl Buddies {
    fn add(&mut self, len: u64) {
        self.counts[len.ilog2() as usize] += 1;
    }

    fn remove(&mut self, len: u64) {
        self.counts[len.ilog2() as usize] -= 1;
    }

    /// Returns the length of a region in which a block of `len` bytes finds a place next to all live blocks: each of
    /// the shorter ones uses a place for it.
    fn enough_for(&self, len: u64) -> u64 {
        let used =
            self.counts.iter().enumerate().map(|(order, &count)| u128::from(count) * u128::from(len.max(1 << order)));
        u64::try_from(used.sum::<u128>() + u128::from(len)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use heapwright_trace::Kind;

    use heapwright_rules::RuleSet;

    use super::*;
    use crate::{Effect, Model, Simulation};

    const USUAL: Requests = RuleSet::SIMULATED.requests;

    fn request(block: u64, size: u64, align: u64) -> Event {
        Event::Allocate { block, kind: Kind::Malloc, size, align }
    }

    #[test]
    fn sizes_are_rounded_like_those_of_the_engine() {
        let recording = Recording::of([
            request(0, 0, 16),
            request(1, 17, 16),
            Event::Free { block: 0 },
            Event::Resize { block: 1, becomes: 2, size: 70 },
            Event::Free { block: 7 },
        ]);
        let rules = Rules { header: 16, ..Rules::default() };
        let demand = Demand::of(&recording, &rules, &USUAL).unwrap();
        assert_eq!((demand.requests, demand.resizes, demand.aligned), (2, 1, 0));
        assert_eq!((demand.peak_requested, demand.peak_rounded), (70, 96));
        assert_eq!((demand.peak_doubled, demand.largest_rounded, demand.largest_doubled), (128, 96, 128));
        // While the block moves: 48 bytes of the old place, and two holes that are one granule too short.
        assert_eq!(demand.always_enough, 48 + 2 * 80 + 16);
        assert_eq!(demand.least_region(PolicyKind::Best, &rules), 96);
    }

    #[test]
    fn an_alignment_of_16_counts_where_it_is_asked_for_and_above_the_granule() {
        let rules = Rules { granule: 8, ..Rules::default() };
        let model = Model::with(PolicyKind::First, rules);
        for (kind, second, aligned) in [(Kind::Malloc, 8, 0), (Kind::Aligned, 16, 1)] {
            let events = [request(0, 8, 16), Event::Allocate { block: 1, kind, size: 8, align: 16 }];
            let demand = Demand::of(&Recording::of(events), &rules, &model.requests).unwrap();
            assert_eq!(demand.aligned, aligned);
            let mut simulation = Simulation::new(&model).unwrap();
            let effects = events.map(|event| simulation.apply(&event));
            assert!(matches!(effects[1], Effect::Placed(placed) if placed.offset == second), "{kind:?}: {effects:?}");
        }
    }

    #[test]
    fn huge_sizes_do_not_overflow() {
        let events = [request(0, u64::MAX, 1 << 63), request(1, u64::MAX, 16), Event::Free { block: 0 }];
        let demand = Demand::of(&Recording::of(events), &Rules::default(), &USUAL).unwrap();
        assert_eq!((demand.requests, demand.aligned), (2, 1));
        assert!(demand.peak_rounded > 1 << 56 && demand.always_enough > 1 << 56);
        let resized = [request(0, 1, 16), Event::Resize { block: 0, becomes: 1, size: u64::MAX }];
        assert_eq!(Demand::of(&Recording::of(resized), &Rules::default(), &USUAL).unwrap().peak_doubled, u64::MAX);
    }
}
