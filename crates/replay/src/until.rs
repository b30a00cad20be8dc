//! Replays a recording, optionally up to the first request that fails.

use std::ops::ControlFlow;

use heapwright_placement::{AnyEngine, Engine};

use crate::error::ReplayError;
use crate::heap::Heap;
use crate::model::Model;
use crate::outcome::Outcome;
use crate::recording::Recording;
use crate::simulation::outcome;
use crate::steps::{Effect, Steps};

/// Whether a replay continues after a request that failed.
type AfterFailure = ControlFlow<()>;

impl Recording {
    /// Returns whether every request succeeds in the heap of `model`. Stops at the first that fails.
    ///
    /// # Errors
    /// [`ReplayError`].
    pub fn fits(&self, model: &Model) -> Result<bool, ReplayError> {
        let mut heap = Heap::new(model)?;
        Ok(self.run(&mut heap, &mut Steps::new(model.requests), ControlFlow::Break(()))?.is_continue())
    }

    /// Replays all events and returns the outcome, as [`replay()`](crate::replay()) does for a trace.
    ///
    /// # Errors
    /// [`ReplayError`].
    pub fn replay(&self, model: &Model) -> Result<Outcome, ReplayError> {
        let (mut heap, mut steps) = (Heap::new(model)?, Steps::new(model.requests));
        let _ = self.run(&mut heap, &mut steps, ControlFlow::Continue(()))?;
        Ok(outcome(heap.engine(), &steps))
    }

    fn run(&self, heap: &mut Heap, steps: &mut Steps, after: AfterFailure) -> Result<ControlFlow<()>, ReplayError> {
        // One loop per policy, so that the engine is statically dispatched.
        match heap.engine_mut() {
            AnyEngine::First(engine) => self.run_in(engine, steps, after),
            AnyEngine::Next(engine) => self.run_in(engine, steps, after),
            AnyEngine::Best(engine) => self.run_in(engine, steps, after),
            AnyEngine::Worst(engine) => self.run_in(engine, steps, after),
            AnyEngine::Random(engine) => self.run_in(engine, steps, after),
            AnyEngine::Buddy(engine) => self.run_in(engine, steps, after),
            AnyEngine::Good(engine) => self.run_in(engine, steps, after),
        }
    }

    fn run_in(
        &self,
        engine: &mut impl Engine,
        steps: &mut Steps,
        after: AfterFailure,
    ) -> Result<ControlFlow<()>, ReplayError> {
        self.try_for_each(|event| match steps.apply(engine, event) {
            Effect::Refused { .. } => after,
            _ => ControlFlow::Continue(()),
        })
    }
}
