//! Replays a recording, optionally up to the first request that fails.

use std::ops::ControlFlow;

use heapwright_placement::Engine;

use crate::engine::Task;
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
        let (mut heap, mut steps) = (Heap::new(model)?, Steps::new(model.requests));
        let fits = self.run(&mut heap, &mut steps, ControlFlow::Break(()))?.is_continue();
        heap.ensure_room(steps.refused)?;
        Ok(fits)
    }

    /// Replays all events and returns the outcome, as [`replay()`](crate::replay()) does for a trace.
    ///
    /// # Errors
    /// [`ReplayError`].
    pub fn replay(&self, model: &Model) -> Result<Outcome, ReplayError> {
        let (mut heap, mut steps) = (Heap::new(model)?, Steps::new(model.requests));
        let _ = self.run(&mut heap, &mut steps, ControlFlow::Continue(()))?;
        heap.ensure_room(steps.refused)?;
        Ok(outcome(heap.engine(), &steps))
    }

    fn run(&self, heap: &mut Heap, steps: &mut Steps, after: AfterFailure) -> Result<ControlFlow<()>, ReplayError> {
        heap.engine_mut().run(Events { recording: self, steps, after })
    }
}

/// The events of a recording, to be applied to a heap.
struct Events<'r> {
    recording: &'r Recording,
    steps: &'r mut Steps,
    after: AfterFailure,
}

impl Task for Events<'_> {
    type Outcome = Result<ControlFlow<()>, ReplayError>;

    fn run(self, engine: &mut impl Engine) -> Self::Outcome {
        let Events { recording, steps, after } = self;
        recording.try_for_each(|event| match steps.apply(engine, event) {
            Effect::Refused { .. } => after,
            _ => ControlFlow::Continue(()),
        })
    }
}
