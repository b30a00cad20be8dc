//! The engine of a simulation: the fast one, or the reference where only that has the rules.

use heapwright_placement::{
    AllocateError, AnyEngine, Block, Counters, Engine, FreeError, Freed, PolicyKind, ResizeError, Violation,
};
use heapwright_reference::Reference;

/// The engine of a simulation.
pub enum SimulatedEngine {
    /// The fast engine.
    Fast(AnyEngine<'static>),
    /// The reference engine, for rules that the fast engine does not have: [`Model::odd_reason`] tells which. Every
    /// operation takes time proportional to the number of blocks.
    ///
    /// [`Model::odd_reason`]: crate::Model::odd_reason
    Reference(Box<Reference>),
}

/// Passes a call on.
macro_rules! each {
    ($self:expr, $engine:ident => $call:expr) => {
        match $self {
            SimulatedEngine::Fast($engine) => $call,
            SimulatedEngine::Reference($engine) => $call,
        }
    };
}

impl Engine for SimulatedEngine {
    fn policy(&self) -> PolicyKind {
        each!(self, engine => engine.policy())
    }

    fn allocate(&mut self, bytes: usize, align: usize) -> Result<usize, AllocateError> {
        each!(self, engine => engine.allocate(bytes, align))
    }

    fn deallocate(&mut self, offset: usize) -> Result<Freed, FreeError> {
        each!(self, engine => engine.deallocate(offset))
    }

    fn deallocate_sized(&mut self, offset: usize, bytes: usize) -> Result<Freed, FreeError> {
        each!(self, engine => engine.deallocate_sized(offset, bytes))
    }

    fn resize(&mut self, offset: usize, old: usize, new: usize) -> Result<(), ResizeError> {
        each!(self, engine => engine.resize(offset, old, new))
    }

    fn usable_size(&self, offset: usize) -> Option<usize> {
        each!(self, engine => engine.usable_size(offset))
    }

    fn block_containing(&self, offset: usize) -> Option<Block> {
        each!(self, engine => engine.block_containing(offset))
    }

    fn heap_size(&self) -> usize {
        each!(self, engine => engine.heap_size())
    }

    fn top(&self) -> usize {
        each!(self, engine => engine.top())
    }

    fn capacity(&self) -> usize {
        each!(self, engine => engine.capacity())
    }

    fn counters(&self) -> Option<Counters> {
        each!(self, engine => engine.counters())
    }

    fn check(&self) -> Result<(), Violation> {
        each!(self, engine => engine.check())
    }
}

/// What is done with an engine whose type is known: one loop per policy, so that nothing is dispatched per event.
pub(crate) trait Task {
    /// What comes of it.
    type Outcome;

    fn run(self, engine: &mut impl Engine) -> Self::Outcome;
}

impl SimulatedEngine {
    /// Runs a task.
    pub(crate) fn run<T: Task>(&mut self, task: T) -> T::Outcome {
        match self {
            SimulatedEngine::Fast(engine) => match engine {
                AnyEngine::First(engine) => task.run(engine),
                AnyEngine::Next(engine) => task.run(engine),
                AnyEngine::Best(engine) => task.run(engine),
                AnyEngine::Worst(engine) => task.run(engine),
                AnyEngine::Random(engine) => task.run(engine),
                AnyEngine::Buddy(engine) => task.run(engine),
                AnyEngine::Good(engine) => task.run(engine),
            },
            SimulatedEngine::Reference(engine) => task.run(&mut **engine),
        }
    }
}
