//! Draws the maps of heaps from the places of their blocks.

use std::collections::BTreeSet;

use heapwright_os::prefetch;
use heapwright_placement::{Block, BlockState, PolicyKind};
use heapwright_trace::{Event, Reader};

use super::census::Census;
use super::grid::Classes;
use super::journal::Place;
use super::map::HeapMap;
use super::moment::Moment;
use super::outline::{Outline, Peak};
use super::relay::{Batch, Step, relay, with_later};
use super::whole::{Detail, History};
use crate::blocks::{Dense, Placed};
use crate::error::ReplayError;
use crate::heap::Heap;
use crate::slots::Slots;
use crate::steps::Steps;

impl Outline {
    /// Completes the histories of heaps, each in a thread of its own. `trace` must be the same one again, read with
    /// sites if [`Detail::sites`] has groups, and `census` be that of the trace. Calls `progress` with the number of
    /// events that have been read, now and then.
    ///
    /// Memory: 15 bytes per cell of the finest map, and 40 bytes per live block, for each of them.
    ///
    /// # Errors
    /// [`ReplayError`].
    pub fn complete_all(
        outlines: Vec<Outline>,
        trace: &mut Reader<'_>,
        census: &Census,
        detail: &Detail,
        mut progress: impl FnMut(u64),
    ) -> Result<Vec<History>, ReplayError> {
        let peaks_of = |outline: &Outline| outline.peak.map(|peak| peak.events);
        let mut peaks: BTreeSet<u64> = outlines.iter().filter_map(peaks_of).collect();
        let (slots, next_peak) = (Slots::default(), peaks.pop_first());
        let mut batches = Batches { trace, slots, numbers: Vec::new(), next_peak, peaks, census, detail };
        let begin = |outline| Drawing::new(outline, census, detail);
        let mut drawings: Vec<Drawing> = outlines.into_iter().map(begin).collect::<Result<_, _>>()?;
        relay(
            &mut drawings,
            |drawing, batch| drawing.take(batch),
            || {
                progress(batches.trace.events_read());
                batches.next()
            },
        )?;
        Ok(drawings.into_iter().map(Drawing::finish).collect())
    }
}

/// The events of a trace with the classes of their blocks.
struct Batches<'t, 'r> {
    trace: &'t mut Reader<'r>,
    slots: Slots,
    /// The number of the block that was last in each slot.
    numbers: Vec<u64>,
    /// After how many events a heap asks for those numbers next, and then.
    next_peak: Option<u64>,
    peaks: BTreeSet<u64>,
    census: &'t Census,
    detail: &'t Detail,
}

impl Batches<'_, '_> {
    fn next(&mut self) -> Result<Option<Batch>, ReplayError> {
        let mut batch = Batch::default();
        let mut is_peak = false;
        while batch.has_room() && !is_peak {
            let Some(event) = self.trace.next_call()? else { break };
            let renumbered = self.slots.renumber(&event);
            batch.classes.push(self.classes(&event, &renumbered));
            batch.steps.push(Step::of(&renumbered));
            is_peak = self.next_peak == Some(self.trace.calls_read());
        }
        if is_peak {
            batch.numbers = Some(self.numbers.clone());
            self.next_peak = self.peaks.pop_first();
        }
        Ok((!batch.steps.is_empty()).then_some(batch))
    }

    /// Returns the classes of the block that an event creates, and stores its number.
    #[inline]
    fn classes(&mut self, event: &Event, renumbered: &Event) -> [u8; 3] {
        let (block, slot, size) = match (*event, *renumbered) {
            (Event::Allocate { block, size, .. }, Event::Allocate { block: slot, .. }) => (block, slot, size),
            (Event::Resize { becomes, size, .. }, Event::Resize { becomes: slot, .. }) => (becomes, slot, size),
            _ => return [0; 3],
        };
        let slot = slot as usize;
        if slot >= self.numbers.len() {
            self.numbers.resize(slot + 1, 0);
        }
        self.numbers[slot] = block;
        let site = self.detail.sites.of(self.trace.site());
        [History::size_class(size), History::age_class(block, self.census.blocks), site]
    }
}

/// A used block, including header and rounding; empty in a free slot.
#[derive(Clone, Copy, Debug, Default)]
struct Extent {
    start: u64,
    end: u64,
    /// The requested size in bytes.
    size: u64,
    classes: [u8; 3],
}

/// A history while its map is drawn.
struct Drawing {
    outline: Outline,
    map: HeapMap,
    /// By slot.
    extents: Vec<Extent>,
    events: u64,
    at_peak: Option<Moment>,
    /// The heap until its peak, if its holes do not follow from its used blocks.
    engine: Option<Box<(Heap, Steps<Dense>)>>,
}

impl Drawing {
    fn new(outline: Outline, census: &Census, detail: &Detail) -> Result<Drawing, ReplayError> {
        let model = &outline.model;
        let granule = u64::from(model.rules.granule);
        let size_and_age = [History::CLASSES; 2].map(Classes::from);
        let classes: Vec<Classes> = size_and_age.into_iter().chain(detail.sites.classes()).collect();
        let (rows, columns) = (detail.rows, detail.columns);
        let map = HeapMap::new(outline.outcome.peak_heap, granule, census.events, rows, columns, &classes);
        let engine = match model.odd_reason() {
            Some(_) => Some(Box::new((Heap::new(model)?, Steps::new(model.requests)))),
            None => None,
        };
        Ok(Drawing { outline, map, extents: Vec::new(), events: 0, at_peak: None, engine })
    }

    fn take(&mut self, batch: &Batch) -> Result<(), ReplayError> {
        if let Some(engine) = &mut self.engine {
            let (heap, steps) = &mut **engine;
            batch.steps.iter().for_each(|step| _ = steps.apply(heap.engine_mut(), &step.event()));
        }
        for ((step, later), &classes) in with_later(&batch.steps).zip(&batch.classes) {
            prefetch(self.extents.as_ptr().wrapping_add(later.slot() as usize).cast());
            self.apply(&step.event(), classes)?;
        }
        self.events += batch.steps.len() as u64;
        let peak = self.outline.peak.filter(|peak| peak.events == self.events);
        if let (Some(peak), Some(numbers)) = (peak, &batch.numbers) {
            self.at_peak = Some(self.moment(peak, numbers));
            self.engine = None;
        }
        Ok(())
    }

    #[inline(always)]
    fn apply(&mut self, event: &Event, classes: [u8; 3]) -> Result<(), ReplayError> {
        match *event {
            Event::Allocate { block, size, .. } => self.place(block, size, classes, Extent::default())?,
            Event::Resize { block, becomes, size } => {
                let old = self.remove(block);
                self.place(becomes, size, classes, old)?;
            }
            Event::Free { block } => _ = self.remove(block),
            Event::Failed { .. } | Event::Thread { .. } => {}
        }
        self.map.end_event();
        Ok(())
    }

    /// Adds the block of a request; `old` is the one that is resized.
    #[inline(always)]
    fn place(&mut self, slot: u64, size: u64, classes: [u8; 3], old: Extent) -> Result<(), ReplayError> {
        let extent = match self.outline.places.next(size)? {
            Place::None => return Ok(()),
            Place::Kept => Extent { classes: [old.classes[0], classes[1], classes[2]], ..old },
            Place::At { start, end } => Extent { start, end, size, classes },
        };
        let slot = slot as usize;
        if slot >= self.extents.len() {
            self.extents.resize(slot + 1, Extent::default());
        }
        self.extents[slot] = extent;
        self.map.occupy(extent.start..extent.end, &extent.classes);
        Ok(())
    }

    /// Removes the block in a slot, if there is one.
    #[inline(always)]
    fn remove(&mut self, slot: u64) -> Extent {
        let Some(extent) = self.extents.get_mut(slot as usize).map(std::mem::take) else { return Extent::default() };
        self.map.vacate(extent.start..extent.end, &extent.classes);
        extent
    }

    /// Returns the present state, which is the peak; `numbers` are those of the blocks in the slots.
    fn moment(&self, peak: Peak, numbers: &[u64]) -> Moment {
        let Peak { events, heap, requested, .. } = peak;
        let moment = Moment { events, heap, requested, ..Moment::default() };
        let header = self.outline.model.rules.header as usize;
        let mut used: Vec<(u64, Extent)> = numbers.iter().copied().zip(self.extents.iter().copied()).collect();
        used.retain(|(_, extent)| extent.start < extent.end);
        used.sort_unstable_by_key(|(_, extent)| extent.start);
        let placed = |extent: &Extent| Placed { offset: extent.start as usize + header, size: extent.size as usize };
        let live = used.iter().map(|(number, extent)| (*number, placed(extent))).collect();
        match &self.engine {
            Some(engine) => moment.with_blocks(heapwright_placement::Engine::blocks(engine.0.engine()), live),
            None => {
                let is_buddy = self.outline.model.policy == PolicyKind::Buddy;
                let blocks = blocks_of(used.iter().map(|(_, extent)| *extent), heap, |from, to| {
                    if is_buddy { buddy_at(from, to) } else { to }
                });
                moment.with_blocks(blocks.into_iter(), live)
            }
        }
    }

    fn finish(self) -> History {
        let Outline { heap, live, holes, end, .. } = self.outline;
        History { heap, live, holes, map: self.map, peak: self.at_peak, end }
    }
}

/// Returns all blocks of a heap with these `used` ones, in address order. `end` returns where the hole ends that starts
/// at an address, of free bytes up to another.
fn blocks_of(used: impl Iterator<Item = Extent>, heap: u64, end: impl Fn(u64, u64) -> u64) -> Vec<Block> {
    let block = |start, end, state| Block { offset: start as usize, size: (end - start) as usize, state };
    let mut blocks = Vec::new();
    let mut at = 0;
    let free_up_to = |blocks: &mut Vec<Block>, mut at: u64, to: u64| {
        while at < to {
            let next = end(at, to);
            blocks.push(block(at, next, BlockState::Free));
            at = next;
        }
    };
    for extent in used {
        free_up_to(&mut blocks, at, extent.start);
        blocks.push(block(extent.start, extent.end, BlockState::Used));
        at = extent.end;
    }
    free_up_to(&mut blocks, at, heap);
    blocks
}

/// Returns the end of the longest buddy that starts at `from` and ends at `to` or before: free buddies are always
/// joined.
fn buddy_at(from: u64, to: u64) -> u64 {
    let most = (to - from).ilog2();
    from + (1 << from.trailing_zeros().min(most))
}
