//! One heap of a replay: a policy, and what it makes of the trace.

use anyhow::Result;
use heapwright_placement::{Engine, PolicyKind};
use heapwright_replay::{Effect, Model, Simulation};
use heapwright_trace::Event;

use super::before::Before;
use super::story::Story;
use crate::watch::history::{History, Point};

/// A heap under a policy.
pub struct Lane {
    model: Model,
    simulation: Simulation,
    /// Where next fit goes on.
    rover: usize,
    /// What the last event did, if it was looked at.
    pub story: Option<Story>,
    /// What the heap was like.
    pub history: History,
}

impl Lane {
    /// An empty heap.
    pub fn new(policy: PolicyKind) -> Result<Lane> {
        let model = Model::usual(policy);
        let simulation = Simulation::new(&model)?;
        Ok(Lane { model, simulation, rover: 0, story: None, history: History::default() })
    }

    /// Its policy.
    pub fn policy(&self) -> PolicyKind {
        self.model.policy
    }

    /// The heap.
    pub fn engine(&self) -> &impl Engine {
        self.simulation.engine()
    }

    /// Bytes, as asked, that live.
    pub fn requested(&self) -> u64 {
        self.simulation.requested()
    }

    /// The smallest unit of placement, in bytes.
    pub fn granule(&self) -> usize {
        self.model.rules.granule as usize
    }

    /// Lets an event happen.
    pub fn apply(&mut self, event: &Event) {
        self.take(event);
    }

    fn take(&mut self, event: &Event) -> Effect {
        let effect = self.simulation.apply(event);
        if let Effect::Placed(placed) | Effect::Moved { new: placed, .. } = effect {
            let engine = self.simulation.engine();
            self.rover = placed.offset + engine.usable_size(placed.offset).unwrap_or(0);
        }
        effect
    }

    /// Lets an event happen and tells what it did. Time: a walk of the heap.
    pub fn tell(&mut self, event: &Event) {
        let number = match *event {
            Event::Free { block } | Event::Resize { block, .. } => Some(block),
            _ => None,
        };
        let block = number.and_then(|number| self.simulation.live_block(number)).map(|placed| placed.offset);
        let before = Before::of(self.simulation.engine(), self.rover, block);
        let effect = self.take(event);
        self.story = Some(Story::of(event, &effect, &before, self.simulation.engine(), self.granule()));
    }

    /// Takes note of what the heap is like now. Time: a walk of the heap.
    pub fn note(&mut self) {
        if let Some(counters) = self.simulation.engine().counters() {
            let external = self.simulation.engine().holes().external_fragmentation();
            self.history.add(Point { heap: counters.heap_size, live: counters.live, external });
        }
    }
}
