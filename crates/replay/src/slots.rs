//! Numbers for live blocks that are as low as can be, so that tables of them are short arrays.

use heapwright_trace::{Event, LiveBlocks};

/// Gives each live block of a trace the number of a slot; a slot is taken again after its block went.
///
/// A trace is renumbered once for many heaps, each of which then finds a block without a search.
#[derive(Default)]
pub(crate) struct Slots(LiveBlocks<()>);

/// The slot of a block that is not live.
const NONE: u64 = u64::MAX;

impl Slots {
    /// Returns the event with slots instead of the numbers of blocks.
    #[inline(always)]
    pub(crate) fn renumber(&mut self, event: &Event) -> Event {
        match *event {
            Event::Allocate { block, kind, size, align } => {
                Event::Allocate { block: self.add(block), kind, size, align }
            }
            Event::Resize { block, becomes, size } => {
                let block = self.remove(block);
                Event::Resize { block, becomes: self.add(becomes), size }
            }
            Event::Free { block } => Event::Free { block: self.remove(block) },
            other => other,
        }
    }

    /// Returns the live blocks, in no order, and their slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().map(|(block, slot, ())| (block, u64::from(slot)))
    }

    #[inline(always)]
    fn add(&mut self, block: u64) -> u64 {
        u64::from(self.0.insert(block, ()))
    }

    #[inline(always)]
    fn remove(&mut self, block: u64) -> u64 {
        self.0.remove(block).map_or(NONE, |(slot, ())| u64::from(slot))
    }
}

#[cfg(test)]
mod tests {
    use heapwright_trace::Kind;

    use super::*;

    #[test]
    fn slots_are_taken_again_and_live_blocks_have_different_ones() {
        let allocate = |block| Event::Allocate { block, kind: Kind::Malloc, size: 1, align: 16 };
        let mut slots = Slots::default();
        assert_eq!([allocate(0), allocate(1)].map(|event| slots.renumber(&event)), [allocate(0), allocate(1)]);
        assert_eq!(slots.renumber(&Event::Free { block: 0 }), Event::Free { block: 0 });
        assert_eq!(slots.renumber(&Event::Free { block: 0 }), Event::Free { block: NONE });
        let resized = slots.renumber(&Event::Resize { block: 1, becomes: 2, size: 5 });
        assert_eq!(resized, Event::Resize { block: 1, becomes: 1, size: 5 });
        assert_eq!([allocate(3), allocate(4)].map(|event| slots.renumber(&event)), [allocate(0), allocate(2)]);
        let mut live: Vec<_> = slots.iter().collect();
        live.sort_unstable();
        assert_eq!(live, [(2, 1), (3, 0), (4, 2)]);
    }
}
