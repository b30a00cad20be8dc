//! What a simulation finds out before the map of a heap can be drawn: how long the heap becomes, and when.

use std::fs::File;

use heapwright_placement::{Engine, Growth};
use heapwright_trace::{Event, Reader};

use super::journal::{Journal, Place, Places};
use super::moment::Moment;
use super::relay::{Batch, Step, relay, with_later};
use super::series::Series;
use crate::blocks::Dense;
use crate::engine::Task;
use crate::error::ReplayError;
use crate::heap::Heap;
use crate::model::Model;
use crate::outcome::Outcome;
use crate::simulation::outcome;
use crate::slots::Slots;
use crate::steps::{Effect, Steps};

/// A simulated heap, all of whose [`History`](super::History) is known but the map and the peak.
///
/// A map has rows of addresses, whose height follows from the longest that the heap becomes. The places of all blocks
/// are therefore kept in a file, from which [`Outline::complete_all`] draws it: no block is placed twice.
pub struct Outline {
    pub(super) model: Model,
    pub(super) outcome: Outcome,
    pub(super) heap: Series,
    pub(super) live: Series,
    pub(super) holes: Series,
    pub(super) end: Moment,
    /// `None` if the heap had its peak within an event, or never.
    pub(super) peak: Option<Peak>,
    pub(super) places: Places,
}

/// The peak of a heap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Peak {
    /// The number of events applied.
    pub(super) events: u64,
    /// The length of the heap then, or the requested bytes in a fixed region.
    extent: u64,
    pub(super) heap: u64,
    pub(super) requested: u64,
}

impl Outline {
    /// Simulates the heaps of all `models`, each in a thread of its own, and reads the trace once for all of them.
    /// `files` are as many empty ones, which take 4 bytes per request. Calls `progress` with the number of events that
    /// have been read, now and then.
    ///
    /// # Errors
    /// [`ReplayError`] of the trace or a file; in the inner results, that of a heap.
    pub fn all(
        trace: &mut Reader<'_>,
        models: &[Model],
        files: Vec<File>,
        buckets: usize,
        mut progress: impl FnMut(u64),
    ) -> Result<Vec<Result<Outline, ReplayError>>, ReplayError> {
        let begin = |(model, file)| Simulated::new(model, file, buckets);
        let mut heaps: Vec<Result<Simulated, ReplayError>> = models.iter().zip(files).map(begin).collect();
        let mut slots = Slots::default();
        let mut ready: Vec<&mut Simulated> = heaps.iter_mut().flatten().collect();
        relay(
            &mut ready,
            |heap, batch| heap.take(batch),
            || {
                progress(trace.events_read());
                Batch::read(trace, &mut slots)
            },
        )?;
        Ok(heaps.into_iter().map(|heap| heap?.finish(&slots)).collect())
    }

    /// Returns the outcome, as [`replay`](crate::replay()) does.
    #[must_use]
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }
}

/// A heap while it is simulated.
struct Simulated {
    model: Model,
    heap: Heap,
    steps: Steps<Dense>,
    watched: Watched,
}

/// What is recorded of a heap.
struct Watched {
    header: usize,
    growth: Growth,
    journal: Journal,
    heap: Series,
    live: Series,
    holes: Series,
    peak: Peak,
}

impl Simulated {
    fn new(model: &Model, file: File, buckets: usize) -> Result<Simulated, ReplayError> {
        let series = || Series::new(buckets);
        let watched = Watched {
            header: model.rules.header as usize,
            growth: model.rules.growth,
            journal: Journal::new(model, file),
            heap: series(),
            live: series(),
            holes: series(),
            peak: Peak::default(),
        };
        Ok(Simulated { model: *model, heap: Heap::new(model)?, steps: Steps::new(model.requests), watched })
    }

    fn take(&mut self, batch: &Batch) -> Result<(), ReplayError> {
        let Simulated { heap, steps, watched, .. } = self;
        heap.engine_mut().run(Events { events: &batch.steps, steps, watched })
    }

    fn finish(self, slots: &Slots) -> Result<Outline, ReplayError> {
        let Simulated { model, heap, steps, watched } = self;
        heap.ensure_room(steps.refused)?;
        let outcome = outcome(heap.engine(), &steps);
        let live = slots.iter().filter_map(|(number, slot)| Some((number, steps.blocks.get(slot)?)));
        let end = Moment {
            events: steps.events,
            heap: heap.engine().heap_size() as u64,
            requested: steps.requested,
            ..Moment::default()
        };
        let end = end.with_blocks(heap.engine().blocks(), live.collect());
        let most = if model.rules.growth == Growth::Fixed { outcome.peak_requested } else { outcome.peak_heap };
        let Watched { journal, heap, live, holes, peak, .. } = watched;
        let peak = Some(peak).filter(|peak| peak.events > 0 && peak.extent >= most);
        Ok(Outline { model, outcome, heap, live, holes, end, peak, places: journal.finish()? })
    }
}

/// Events, to be applied to a heap.
struct Events<'e> {
    events: &'e [Step],
    steps: &'e mut Steps<Dense>,
    watched: &'e mut Watched,
}

impl Task for Events<'_> {
    type Outcome = Result<(), ReplayError>;

    fn run(self, engine: &mut impl Engine) -> Self::Outcome {
        let Events { events, steps, watched } = self;
        with_later(events).try_for_each(|(event, later)| {
            steps.blocks.prefetch(later.slot());
            watched.apply(engine, steps, &event.event())
        })
    }
}

impl Watched {
    /// Applies an event to the heap and records what comes of it.
    #[inline(always)]
    fn apply(&mut self, engine: &mut impl Engine, steps: &mut Steps<Dense>, event: &Event) -> Result<(), ReplayError> {
        let before = engine.counters().unwrap_or_default().live;
        let effect = steps.apply(engine, event);
        let counters = engine.counters().unwrap_or_default();
        match (*event, effect) {
            (Event::Allocate { size, .. }, Effect::Placed(block)) => {
                let start = (block.offset - self.header) as u64;
                self.journal.push(size, Place::At { start, end: start + (counters.live - before) })?;
            }
            (Event::Allocate { size, .. }, _) => self.journal.push(size, Place::None)?,
            (Event::Resize { becomes, size, .. }, _) => {
                self.journal.push(size, self.place_of_resized(engine, steps, becomes, effect))?;
            }
            _ => {}
        }
        self.heap.push(counters.heap_size);
        self.live.push(counters.live);
        self.holes.push(counters.holes);
        let extent = if self.growth == Growth::Fixed { steps.requested } else { counters.heap_size };
        if extent > self.peak.extent || steps.events == 1 {
            let (events, heap, requested) = (steps.events, counters.heap_size, steps.requested);
            self.peak = Peak { events, extent, heap, requested };
        }
        Ok(())
    }

    /// Returns the place of a block that has become block `number` by this effect.
    fn place_of_resized(&self, engine: &impl Engine, steps: &Steps<Dense>, number: u64, effect: Effect) -> Place {
        let Some(block) = steps.blocks.get(number) else { return Place::None };
        match engine.usable_size(block.offset) {
            None => Place::None,
            Some(_) if matches!(effect, Effect::Refused { .. }) => Place::Kept,
            Some(usable) => {
                Place::At { start: (block.offset - self.header) as u64, end: (block.offset + usable) as u64 }
            }
        }
    }
}
