//! Replays a trace event by event.

use heapwright_placement::Engine;
use heapwright_trace::Event;

use crate::blocks::Placed;
use crate::engine::SimulatedEngine;
use crate::error::ReplayError;
use crate::heap::Heap;
use crate::model::Model;
use crate::outcome::Outcome;
use crate::steps::{Effect, Steps};

/// A simulated heap to which the events of a trace are applied one by one.
///
/// Memory: the metadata of the engine, some 2 % of the simulated heap, and at most 64 bytes per live block.
pub struct Simulation {
    heap: Heap,
    steps: Steps,
}

impl Simulation {
    /// Returns a simulation with an empty heap. Under a limit on address space its capacity may be below the model's;
    /// requests beyond it are refused, which is an error of [`replay()`](crate::replay()).
    ///
    /// # Errors
    /// [`ReplayError::Rules`] and [`ReplayError::NoRoom`].
    pub fn new(model: &Model) -> Result<Simulation, ReplayError> {
        Ok(Simulation { heap: Heap::new(model)?, steps: Steps::new(model.requests) })
    }

    /// Applies an event; returns its effect.
    #[inline]
    pub fn apply(&mut self, event: &Event) -> Effect {
        self.steps.apply(self.heap.engine_mut(), event)
    }

    /// Returns the engine, for its counters, blocks and holes.
    #[inline]
    #[must_use]
    pub fn engine(&self) -> &SimulatedEngine {
        self.heap.engine()
    }

    /// Returns the place of block `number` of the trace, if it is live.
    #[must_use]
    pub fn live_block(&self, number: u64) -> Option<Placed> {
        self.steps.blocks.get(number)
    }

    /// Returns the live blocks, by ascending number.
    pub fn live_blocks(&self) -> impl Iterator<Item = (u64, Placed)> {
        self.steps.blocks.iter()
    }

    /// Returns the requested bytes of all live blocks.
    #[inline]
    #[must_use]
    pub fn requested(&self) -> u64 {
        self.steps.requested
    }

    /// Returns the number of events applied so far, without changes of threads.
    #[inline]
    #[must_use]
    pub fn events(&self) -> u64 {
        self.steps.events - self.steps.changes
    }

    /// Returns the outcome so far. Time: a walk of the heap.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        outcome(self.heap.engine(), &self.steps)
    }
}

/// Returns the outcome of the events applied so far.
pub(crate) fn outcome<P>(engine: &impl Engine, steps: &Steps<P>) -> Outcome {
    let counters = engine.counters().unwrap_or_default();
    Outcome {
        policy: engine.policy(),
        events: steps.events - steps.changes,
        refused: steps.refused,
        unknown: steps.unknown,
        peak_requested: steps.peak_requested,
        peak_live: counters.peak_live,
        peak_heap: counters.peak_heap_size,
        splits: counters.splits,
        coalesces: counters.coalesces,
        resized: counters.resizes,
        moved: steps.moved,
        heap: counters.heap_size,
        live: counters.live,
        holes: counters.holes,
        external_fragmentation: engine.holes().external_fragmentation(),
        internal_fragmentation: (counters.live != 0).then(|| 1.0 - steps.requested as f64 / counters.live as f64),
    }
}
