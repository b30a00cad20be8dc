//! The state of a heap at one moment.

use heapwright_placement::{BlockState, Engine};

use super::histogram::Histogram;
use super::pins::{Pin, pins};
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
        let mut live: Vec<_> = simulation.live_blocks().collect();
        live.sort_unstable_by_key(|(_, placed)| placed.offset);
        let mut moment = Moment {
            events: simulation.events(),
            heap: engine.heap_size() as u64,
            requested: simulation.requested(),
            pins: pins(engine.blocks(), &live),
            ..Moment::default()
        };
        for block in engine.blocks() {
            let size = block.size as u64;
            match block.state {
                BlockState::Used => moment.live += size,
                BlockState::Free => {
                    moment.holes.add(size, size);
                    moment.longest_hole = moment.longest_hole.max(size);
                }
            }
        }
        moment
    }

    /// Returns `1 - longest hole / free bytes`; `None` without holes.
    #[must_use]
    pub fn external_fragmentation(&self) -> Option<f64> {
        (self.holes.weight != 0).then(|| 1.0 - self.longest_hole as f64 / self.holes.weight as f64)
    }
}
