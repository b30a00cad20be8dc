//! The state of a heap at one moment.

use heapwright_placement::{Block, BlockState, Engine};

use super::histogram::Histogram;
use super::pins::{Pin, pins};
use crate::blocks::Placed;
use crate::simulation::Simulation;

/// The state of a heap after an event. Sizes in bytes.
#[derive(Clone, Debug, Default)]
pub struct Moment {
    /// The number of events applied.
    pub events: u64,
    /// The length of the heap.
    pub heap: u64,
    /// The bytes in used blocks.
    pub live: u64,
    /// The requested bytes of those blocks.
    pub requested: u64,
    /// The holes by size, including the free tail; their weight is their size.
    pub holes: Histogram,
    /// The size of the longest hole.
    pub longest_hole: u64,
    /// The blocks that keep holes apart, in address order.
    pub pins: Vec<Pin>,
}

impl Moment {
    /// Returns the current state of a simulation. Time: a walk of the heap, and sorting its live blocks.
    #[must_use]
    pub fn of(simulation: &Simulation) -> Moment {
        let engine = simulation.engine();
        let moment = Moment {
            events: simulation.events(),
            heap: engine.heap_size() as u64,
            requested: simulation.requested(),
            ..Moment::default()
        };
        moment.with_blocks(engine.blocks(), simulation.live_blocks().collect())
    }

    /// Adds all `blocks` of the heap, in address order, of which these are live.
    pub(super) fn with_blocks(mut self, blocks: impl Iterator<Item = Block>, mut live: Vec<(u64, Placed)>) -> Moment {
        live.sort_unstable_by_key(|(_, placed)| placed.offset);
        let count = |block: &Block| match (block.state, block.size as u64) {
            (BlockState::Used, size) => self.live += size,
            (BlockState::Free, size) => {
                self.holes.add(size, size);
                self.longest_hole = self.longest_hole.max(size);
            }
        };
        self.pins = pins(blocks.inspect(count), &live);
        self
    }

    /// Returns `1 - longest hole / free bytes`; `None` without holes.
    #[must_use]
    pub fn external_fragmentation(&self) -> Option<f64> {
        (self.holes.weight != 0).then(|| 1.0 - self.longest_hole as f64 / self.holes.weight as f64)
    }
}
