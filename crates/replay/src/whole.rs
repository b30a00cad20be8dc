//! Replays a whole trace at full speed.

use std::ops::ControlFlow;

use heapwright_placement::Engine;
use heapwright_trace::Reader;

use crate::engine::Task;
use crate::error::ReplayError;
use crate::heap::Heap;
use crate::model::Model;
use crate::outcome::Outcome;
use crate::simulation::outcome;
use crate::steps::Steps;

/// Replays a whole trace. Memory: that of a [`Simulation`](crate::Simulation), independent of the length of the trace.
/// Under rules that the fast engine does not have, the reference engine places the blocks; each event then takes time
/// proportional to the number of blocks.
///
/// # Errors
/// [`ReplayError`]; a damaged trace has an outcome only if it is read [up to the damage](Reader::up_to_damage).
pub fn replay(trace: &mut Reader<'_>, model: &Model) -> Result<Outcome, ReplayError> {
    let (mut heap, mut steps) = (Heap::new(model)?, Steps::new(model.requests));
    heap.engine_mut().run(Trace { trace, steps: &mut steps })?;
    heap.ensure_room(steps.refused)?;
    Ok(outcome(heap.engine(), &steps))
}

/// A trace, to be applied to a heap.
struct Trace<'t, 'r> {
    trace: &'t mut Reader<'r>,
    steps: &'t mut Steps,
}

impl Task for Trace<'_, '_> {
    type Outcome = Result<(), ReplayError>;

    fn run(self, engine: &mut impl Engine) -> Self::Outcome {
        let Trace { trace, steps } = self;
        let _ = trace.try_for_each_event(|event| {
            steps.apply(engine, event);
            ControlFlow::Continue(())
        })?;
        Ok(())
    }
}
