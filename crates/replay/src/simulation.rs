//! A replay that is looked at.

use heapwright_placement::{AnyEngine, Engine};
use heapwright_trace::Event;

use crate::blocks::Placed;
use crate::error::ReplayError;
use crate::heap::Heap;
use crate::model::Model;
use crate::outcome::Outcome;
use crate::steps::{Effect, Steps};

/// A heap under a policy, to which the events of a trace happen one by one.
///
/// Memory: the engine's metadata, some 2 % of the heap that is simulated, and at most 64 bytes per live block.
pub struct Simulation {
    heap: Heap,
    steps: Steps,
}

impl Simulation {
    /// An empty heap.
    ///
    /// # Errors
    /// [`ReplayError::Rules`] and [`ReplayError::NoRoom`].
    pub fn new(model: &Model) -> Result<Simulation, ReplayError> {
        Ok(Simulation { heap: Heap::new(model)?, steps: Steps::default() })
    }

    /// Lets an event happen, and says what it did.
    #[inline]
    pub fn apply(&mut self, event: &Event) -> Effect {
        self.steps.apply(self.heap.engine_mut(), event)
    }

    /// The heap as it is: counters, blocks, holes.
    #[inline]
    #[must_use]
    pub fn engine(&self) -> &AnyEngine<'static> {
        self.heap.engine()
    }

    /// Where block `number` of the trace lies, if it lives.
    #[must_use]
    pub fn live_block(&self, number: u64) -> Option<Placed> {
        self.steps.blocks.get(number)
    }

    /// The live blocks, by ascending number.
    pub fn live_blocks(&self) -> impl Iterator<Item = (u64, Placed)> {
        self.steps.blocks.iter()
    }

    /// Bytes, as asked, that live now.
    #[inline]
    #[must_use]
    pub fn requested(&self) -> u64 {
        self.steps.requested
    }

    /// Events applied so far.
    #[inline]
    #[must_use]
    pub fn events(&self) -> u64 {
        self.steps.events
    }

    /// What has come of it so far. Time: a walk of the heap.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        outcome(self.heap.engine(), &self.steps)
    }
}

/// What has come of so many steps.
pub(crate) fn outcome(engine: &AnyEngine<'_>, steps: &Steps) -> Outcome {
    let counters = engine.counters().unwrap_or_default();
    Outcome {
        policy: engine.policy(),
        events: steps.events,
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
