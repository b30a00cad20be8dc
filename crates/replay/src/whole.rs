//! A whole trace at once, as fast as it goes.

use std::io::Read;
use std::ops::ControlFlow;

use heapwright_placement::{AnyEngine, Engine};
use heapwright_trace::Reader;

use crate::error::ReplayError;
use crate::heap::Heap;
use crate::model::Model;
use crate::outcome::Outcome;
use crate::simulation::outcome;
use crate::steps::Steps;

/// Replays all of a trace. Memory as for a [`Simulation`](crate::Simulation), whatever the trace's length.
///
/// # Errors
/// [`ReplayError`]; a damaged trace gives no outcome.
pub fn replay(trace: &mut Reader<impl Read>, model: &Model) -> Result<Outcome, ReplayError> {
    let mut heap = Heap::new(model)?;
    let mut steps = Steps::default();
    // One loop per policy: what the engine does next is known when it is compiled.
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

fn run(engine: &mut impl Engine, steps: &mut Steps, trace: &mut Reader<impl Read>) -> Result<(), ReplayError> {
    let _ = trace.try_for_each_event(|event| {
        steps.apply(engine, event);
        ControlFlow::Continue(())
    })?;
    Ok(())
}
