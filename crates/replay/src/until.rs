//! As much of a trace as a heap grants.

use std::ops::ControlFlow;

use heapwright_placement::{AnyEngine, Engine};

use crate::error::ReplayError;
use crate::heap::Heap;
use crate::model::Model;
use crate::outcome::Outcome;
use crate::recording::Recording;
use crate::simulation::outcome;
use crate::steps::{Effect, Steps};

/// Whether a replay goes on after a request that found no place.
type AfterRefusal = ControlFlow<()>;

impl Recording {
    /// Whether every request finds a place in the heap that `model` describes. Ends with the first that does not.
    ///
    /// # Errors
    /// [`ReplayError`].
    pub fn fits(&self, model: &Model) -> Result<bool, ReplayError> {
        let mut heap = Heap::new(model)?;
        Ok(self.run(&mut heap, &mut Steps::default(), ControlFlow::Break(()))?.is_continue())
    }

    /// What comes of all the events, whether or not requests find a place: as [`replay()`](crate::replay()).
    ///
    /// # Errors
    /// [`ReplayError`].
    pub fn replay(&self, model: &Model) -> Result<Outcome, ReplayError> {
        let (mut heap, mut steps) = (Heap::new(model)?, Steps::default());
        let _ = self.run(&mut heap, &mut steps, ControlFlow::Continue(()))?;
        Ok(outcome(heap.engine(), &steps))
    }

    fn run(&self, heap: &mut Heap, steps: &mut Steps, after: AfterRefusal) -> Result<ControlFlow<()>, ReplayError> {
        // One loop per policy, as for whole traces.
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
        after: AfterRefusal,
    ) -> Result<ControlFlow<()>, ReplayError> {
        self.try_for_each(|event| match steps.apply(engine, event) {
            Effect::Refused { .. } => after,
            _ => ControlFlow::Continue(()),
        })
    }
}
