//! Replays a whole trace at full speed.

use std::ops::ControlFlow;

use heapwright_placement::{AnyEngine, Engine};
use heapwright_reference::Reference;
use heapwright_trace::Reader;

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
    let mut steps = Steps::new(model.requests);
    if model.odd.reason_under(model.policy).is_some() {
        let mut engine = Reference::create(model.policy, model.capacity, &model.rules)?.under(model.odd);
        engine.seed(model.seed);
        run(&mut engine, &mut steps, trace)?;
        return Ok(outcome(&engine, &steps));
    }
    let mut heap = Heap::new(model)?;
    // One loop per policy, so that the engine is statically dispatched.
    match heap.engine_mut() {
        AnyEngine::First(engine) => run(engine, &mut steps, trace),
        AnyEngine::Next(engine) => run(engine, &mut steps, trace),
        AnyEngine::Best(engine) => run(engine, &mut steps, trace),
        AnyEngine::Worst(engine) => run(engine, &mut steps, trace),
        AnyEngine::Random(engine) => run(engine, &mut steps, trace),
        AnyEngine::Buddy(engine) => run(engine, &mut steps, trace),
        AnyEngine::Good(engine) => run(engine, &mut steps, trace),
    }?;
    Ok(outcome(heap.engine(), &steps))
}

fn run(engine: &mut impl Engine, steps: &mut Steps, trace: &mut Reader<'_>) -> Result<(), ReplayError> {
    let _ = trace.try_for_each_event(|event| {
        steps.apply(engine, event);
        ControlFlow::Continue(())
    })?;
    Ok(())
}
