//! One heap of a replay: a policy, and the heap that it makes of the trace.

use anyhow::Result;
use heapwright_placement::{Engine, PolicyKind};
use heapwright_replay::{Effect, Model, Simulation};
use heapwright_trace::Event;

use super::before::{Before, Need};
use super::question::Question;
use super::story::{Story, call, range};
use crate::history::{History, Point};

/// A heap under a policy.
pub struct Lane {
    model: Model,
    simulation: Simulation,
    /// Next fit's rover.
    rover: usize,
    /// The explanation of the last event, if there is one.
    pub story: Option<Story>,
    /// Samples of the heap over time.
    pub history: History,
}

impl Lane {
    /// Creates an empty heap.
    pub fn new(model: Model) -> Result<Lane> {
        let simulation = Simulation::new(&model)?;
        Ok(Lane { model, simulation, rover: 0, story: None, history: History::default() })
    }

    /// Returns the heap that is simulated.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Returns its policy.
    pub fn policy(&self) -> PolicyKind {
        self.model.policy
    }

    /// Returns the engine.
    pub fn engine(&self) -> &impl Engine {
        self.simulation.engine()
    }

    /// Returns the requested bytes of live blocks.
    pub fn requested(&self) -> u64 {
        self.simulation.requested()
    }

    /// Returns the smallest unit of placement, in bytes.
    pub fn granule(&self) -> usize {
        self.model.rules.granule as usize
    }

    /// Applies an event.
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

    /// Applies an event and explains its effect. Time: a walk of the heap.
    pub fn explain(&mut self, event: &Event) {
        let number = match *event {
            Event::Free { block } | Event::Resize { block, .. } => Some(block),
            _ => None,
        };
        let block = number.and_then(|number| self.simulation.live_block(number));
        let engine = self.simulation.engine();
        let before = Before::of(engine, self.rover, block.map_or(0..0, |block| range(engine, &self.model, block)));
        let effect = self.take(event);
        self.story = Some(Story::of(event, &effect, &before, self.simulation.engine(), &self.model));
    }

    /// Returns the question where `event`, the next one, places its block; `None` if it does not choose between holes.
    /// The rules are those of the fast engine. Time: a walk of the heap.
    pub fn question(&self, event: &Event) -> Option<Question> {
        let Event::Allocate { kind, size, align, .. } = *event else { return None };
        let Model { rules, requests, policy, .. } = &self.model;
        let mut need =
            Need::of(requests.bytes(size as usize)?, requests.align(kind.named_align(align) as usize), rules);
        if *policy == PolicyKind::Buddy {
            need.len = need.len.max(need.align).checked_next_power_of_two()?;
        }
        let before = Before::of(self.simulation.engine(), self.rover, 0..0);
        let mut choices: Vec<_> = before.holes.iter().copied().filter(|&hole| need.fits(hole)).map(Some).collect();
        if choices.len() < 2 {
            return None;
        }
        if matches!(policy, PolicyKind::Good | PolicyKind::Worst) {
            choices.push(None);
        }
        Some(Question { call: call(kind, size as usize, align), before, choices, chosen: 0 })
    }

    /// Samples the heap for the history. Time: a walk of the heap.
    pub fn note(&mut self) {
        if let Some(counters) = self.simulation.engine().counters() {
            let external = self.simulation.engine().holes().external_fragmentation();
            self.history.add(Point { heap: counters.heap_size, live: counters.live, external });
        }
    }
}
