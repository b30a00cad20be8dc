//! A replay in the engine's own address space: blocks are placed, but no memory is behind them.

use std::ptr::NonNull;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use heapwright_placement::{AnyEngine, Counters, Engine, HoleStats, PolicyKind, Rules};
use heapwright_trace::{Event, Reader};
use serde::Serialize;

use super::blocks::{Blocks, Live};
use crate::bench::lazy::Lazy;
use crate::policy;

/// What is replayed under which rules.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    pub policy: PolicyKind,
    pub rules: Rules,
    /// The most bytes that the heap may grow to.
    pub capacity: usize,
    pub seed: u64,
}

/// What came of it. Sizes in bytes.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    #[serde(with = "policy::by_name")]
    pub policy: PolicyKind,
    /// Events replayed.
    pub events: u64,
    pub seconds: f64,
    /// Requests that found no place.
    pub refused: u64,
    /// Frees and resizes of blocks that do not live (the request for them was refused, or the trace is odd).
    pub unknown: u64,
    /// The most bytes, as asked, that lived at one time.
    pub peak_requested: u64,
    /// The most bytes in used blocks.
    pub peak_live: u64,
    pub peak_heap: u64,
    pub splits: u64,
    pub coalesces: u64,
    /// Blocks resized where they were, and moved.
    pub resized: u64,
    pub moved: u64,
    /// When the trace ends.
    pub heap: u64,
    pub live: u64,
    pub holes: u64,
    pub external_fragmentation: Option<f64>,
}

/// Replays all of a trace.
pub fn replay(reader: &mut Reader<impl std::io::Read>, model: &Model) -> Result<Outcome> {
    let cells = AnyEngine::metadata_cells(model.policy, model.capacity, &model.rules)
        .with_context(|| format!("{} cannot have such a heap", model.policy.name()))?;
    let mut metadata = Lazy::<u64>::zeroed(cells)?;
    let start = NonNull::from(&mut metadata[..]).cast();
    // SAFETY: the metadata is zero, long enough, ours alone, and outlives the engine.
    let mut engine = unsafe { AnyEngine::create_zeroed(model.policy, start, model.capacity, &model.rules) }?;
    engine.seed(model.seed);
    let start = Instant::now();
    let run = Run::over(&mut engine, reader)?;
    let seconds = start.elapsed().as_secs_f64();
    let Some(counters) = engine.counters() else { bail!("the heap was made without statistics") };
    Ok(run.outcome(model.policy, seconds, &counters, &engine.holes()))
}

/// A replay under way.
#[derive(Default)]
struct Run {
    events: u64,
    refused: u64,
    unknown: u64,
    moved: u64,
    requested: u64,
    peak_requested: u64,
}

impl Run {
    fn over(engine: &mut AnyEngine<'_>, reader: &mut Reader<impl std::io::Read>) -> Result<Run> {
        let (mut run, mut blocks) = (Run::default(), Blocks::new());
        while let Some(event) = reader.next_event()? {
            run.events += 1;
            match event {
                Event::Allocate { block, size, align, .. } => run.allocate(engine, &mut blocks, block, size, align),
                Event::Resize { block, becomes, size } => run.resize(engine, &mut blocks, block, becomes, size),
                Event::Free { block } => run.free(engine, &mut blocks, block),
                Event::Thread { .. } => {}
            }
        }
        Ok(run)
    }

    fn allocate(&mut self, engine: &mut AnyEngine<'_>, blocks: &mut Blocks, number: u64, size: u64, align: u64) {
        let (size, align) = (size as usize, align as usize);
        match engine.allocate(size, align) {
            Ok(offset) => {
                blocks.insert(number, Live { offset, size });
                self.grown(size);
            }
            Err(_) => self.refused += 1,
        }
    }

    fn resize(&mut self, engine: &mut AnyEngine<'_>, blocks: &mut Blocks, number: u64, becomes: u64, size: u64) {
        let Some(old) = blocks.remove(number) else {
            self.unknown += 1;
            return;
        };
        let size = size as usize;
        if engine.resize(old.offset, old.size, size).is_ok() {
            blocks.insert(becomes, Live { offset: old.offset, size });
        } else if let Ok(offset) = engine.allocate(size, 16) {
            // As realloc does: the old block lives until its contents are in the new one.
            let freed = engine.deallocate_sized(old.offset, old.size);
            debug_assert!(freed.is_ok());
            blocks.insert(becomes, Live { offset, size });
            self.moved += 1;
        } else {
            blocks.insert(becomes, old);
            self.refused += 1;
            return;
        }
        self.requested -= old.size as u64;
        self.grown(size);
    }

    fn free(&mut self, engine: &mut AnyEngine<'_>, blocks: &mut Blocks, number: u64) {
        match blocks.remove(number) {
            Some(block) => {
                let freed = engine.deallocate_sized(block.offset, block.size);
                debug_assert!(freed.is_ok());
                self.requested -= block.size as u64;
            }
            None => self.unknown += 1,
        }
    }

    fn grown(&mut self, size: usize) {
        self.requested += size as u64;
        self.peak_requested = self.peak_requested.max(self.requested);
    }

    fn outcome(&self, policy: PolicyKind, seconds: f64, counters: &Counters, holes: &HoleStats) -> Outcome {
        Outcome {
            policy,
            events: self.events,
            seconds,
            refused: self.refused,
            unknown: self.unknown,
            peak_requested: self.peak_requested,
            peak_live: counters.peak_live,
            peak_heap: counters.peak_heap_size,
            splits: counters.splits,
            coalesces: counters.coalesces,
            resized: counters.resizes,
            moved: self.moved,
            heap: counters.heap_size,
            live: counters.live,
            holes: counters.holes,
            external_fragmentation: holes.external_fragmentation(),
        }
    }
}
