//! What a trace asks of a heap, whatever the policy.

use std::ops::ControlFlow;

use heapwright_placement::{MIN_GRANULES, PolicyKind, Rules};
use heapwright_trace::Event;
use serde::Serialize;

use crate::blocks::{Blocks, Placed};
use crate::error::ReplayError;
use crate::recording::Recording;

/// What a trace asks of a heap under given rules, whatever the policy. Sizes in bytes.
///
/// A block takes its header and what was asked for, rounded up to granules; among buddies, to a power of two granules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Demand {
    /// Requests for blocks, those to resize one not counted.
    pub requests: u64,
    /// Requests to resize a block.
    pub resizes: u64,
    /// Requests at an alignment above the granule.
    pub aligned: u64,
    /// The most bytes, as asked, that live at one time.
    pub peak_requested: u64,
    /// The most that all blocks take at one time: no heap that does not move blocks is ever shorter.
    pub peak_rounded: u64,
    /// As `peak_rounded`, with every block a power of two granules.
    pub peak_doubled: u64,
    /// What the largest block takes.
    pub largest_rounded: u64,
    /// What the largest block takes among buddies.
    pub largest_doubled: u64,
    /// In a fixed region of this length or more, every policy that considers every hole (first, next, best, worst and
    /// random fit) grants every request of this trace.
    ///
    /// A request is refused only when each of at most `blocks + 1` holes is too short for it; so the region is shorter
    /// than the blocks and as many of the longest holes that are too short.
    pub always_enough: u64,
}

impl Demand {
    /// Looks through `recording`. Time: a fraction of a replay's.
    ///
    /// # Errors
    /// [`ReplayError::Rules`], [`ReplayError::Trace`].
    pub fn of(recording: &Recording, rules: &Rules) -> Result<Demand, ReplayError> {
        rules.validate()?;
        let mut tally = Tally::new(rules);
        let _ = recording.try_for_each(|event| {
            tally.see(event);
            ControlFlow::Continue(())
        })?;
        Ok(tally.demand)
    }

    /// A region that is shorter cannot hold what lives at one time under `policy`: the lower bound of every search.
    #[must_use]
    pub fn least_region(&self, policy: PolicyKind, rules: &Rules) -> u64 {
        let shortest = MIN_GRANULES as u64 * u64::from(rules.granule);
        let peak = if policy == PolicyKind::Buddy { self.peak_doubled } else { self.peak_rounded };
        peak.max(shortest)
    }
}

/// What is added up on the way.
struct Tally {
    granule: u64,
    header: u64,
    /// What a block may keep beyond what it needs, and the shortest gap in front of it, in bytes.
    kept: u64,
    shortest_gap: u64,
    /// By number; the offset of a block is not of interest here.
    blocks: Blocks,
    live: u64,
    requested: u64,
    rounded: u64,
    doubled: u64,
    demand: Demand,
}

impl Tally {
    fn new(rules: &Rules) -> Tally {
        let granule = u64::from(rules.granule);
        let shortest_gap = u64::from(rules.min_remainder.max(1)).next_multiple_of(granule);
        Tally {
            granule,
            header: u64::from(rules.header),
            kept: shortest_gap - granule,
            shortest_gap,
            blocks: Blocks::default(),
            live: 0,
            requested: 0,
            rounded: 0,
            doubled: 0,
            demand: Demand::default(),
        }
    }

    fn see(&mut self, event: &Event) {
        match *event {
            Event::Allocate { block, size, align, .. } => {
                self.demand.requests += 1;
                self.demand.aligned += u64::from(align > self.granule);
                self.place(size, align);
                self.appear(block, size);
            }
            Event::Resize { block, becomes, size } => {
                if let Some(old) = self.blocks.get(block) {
                    self.demand.resizes += 1;
                    // The old block lives until its contents are in the new one, unless it can stay.
                    self.place(size, USUAL_ALIGN);
                    self.blocks.remove(block);
                    self.disappear(old.size as u64);
                    self.appear(becomes, size);
                }
            }
            Event::Free { block } => {
                if let Some(old) = self.blocks.remove(block) {
                    self.disappear(old.size as u64);
                }
            }
            _ => {}
        }
    }

    /// Somewhere there must be room for `size` bytes, beside all that lives.
    fn place(&mut self, size: u64, align: u64) {
        let gap = if align > self.granule { (align - self.granule).saturating_add(self.shortest_gap) } else { 0 };
        let too_short = self.rounded_size(size).saturating_add(gap) - self.granule;
        let holes = (self.live + 1).saturating_mul(too_short);
        let blocks = self.rounded.saturating_add(self.live.saturating_mul(self.kept));
        let enough = blocks.saturating_add(holes).saturating_add(self.granule);
        self.demand.always_enough = self.demand.always_enough.max(enough);
    }

    fn appear(&mut self, number: u64, size: u64) {
        // A block that no heap can place never lives.
        let Ok(bytes) = usize::try_from(size) else { return };
        self.blocks.insert(number, Placed { offset: 0, size: bytes });
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

    fn disappear(&mut self, size: u64) {
        self.live -= 1;
        self.requested = self.requested.saturating_sub(size);
        self.rounded = self.rounded.saturating_sub(self.rounded_size(size));
        self.doubled = self.doubled.saturating_sub(self.doubled_size(size));
    }

    /// What a block of `size` bytes takes.
    fn rounded_size(&self, size: u64) -> u64 {
        let most = u64::MAX / self.granule;
        size.max(1).div_ceil(self.granule).saturating_add(self.header / self.granule).min(most) * self.granule
    }

    /// What a block of `size` bytes takes among buddies.
    fn doubled_size(&self, size: u64) -> u64 {
        let granules = self.rounded_size(size) / self.granule;
        granules.checked_next_power_of_two().map_or(u64::MAX, |granules| granules.saturating_mul(self.granule))
    }
}

/// The alignment at which a resized block is placed anew, in bytes.
const USUAL_ALIGN: u64 = 16;

#[cfg(test)]
mod tests {
    use heapwright_trace::Kind;

    use super::*;

    fn request(block: u64, size: u64, align: u64) -> Event {
        Event::Allocate { block, kind: Kind::Malloc, size, align }
    }

    #[test]
    fn sizes_are_rounded_as_the_engine_rounds_them() {
        let recording = Recording::of([
            request(0, 0, 16),
            request(1, 17, 16),
            Event::Free { block: 0 },
            Event::Resize { block: 1, becomes: 2, size: 70 },
            Event::Free { block: 7 },
        ]);
        let rules = Rules { header: 16, ..Rules::default() };
        let demand = Demand::of(&recording, &rules).unwrap();
        assert_eq!((demand.requests, demand.resizes, demand.aligned), (2, 1, 0));
        assert_eq!((demand.peak_requested, demand.peak_rounded), (70, 96));
        assert_eq!((demand.peak_doubled, demand.largest_rounded, demand.largest_doubled), (128, 96, 128));
        // When it is moved: 48 bytes of the old one, and two holes that are one granule too short.
        assert_eq!(demand.always_enough, 48 + 2 * 80 + 16);
        assert_eq!(demand.least_region(PolicyKind::Best, &rules), 256);
    }

    #[test]
    fn absurd_sizes_are_added_up_without_harm() {
        let events = [request(0, u64::MAX, 1 << 63), request(1, u64::MAX, 16), Event::Free { block: 0 }];
        let demand = Demand::of(&Recording::of(events), &Rules::default()).unwrap();
        assert_eq!((demand.requests, demand.aligned), (2, 1));
        assert!(demand.peak_rounded > 1 << 56 && demand.always_enough > 1 << 56);
        let resized = [request(0, 1, 16), Event::Resize { block: 0, becomes: 1, size: u64::MAX }];
        assert_eq!(Demand::of(&Recording::of(resized), &Rules::default()).unwrap().peak_doubled, u64::MAX);
    }
}
