//! Reads a trace once for many heaps, each of which has a thread of its own.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use heapwright_trace::{Event, Kind, Reader};

use crate::error::ReplayError;
use crate::slots::Slots;

/// The number of events of a batch. After each the processor may go on with another heap, whose tables are not in its
/// caches: with 8192 events, two thirds of a simulation were waits for a block's place.
const BATCH: usize = 1 << 18;

/// The number of batches that a slow heap may be behind.
const BEHIND: usize = 1;

/// A call in 16 bytes, with [slots](Slots) instead of the numbers of blocks.
#[derive(Clone, Copy)]
pub(super) struct Step {
    /// The size of a request.
    size: u64,
    slot: u32,
    /// The kind, and from [`BEHIND_KIND`] on the alignment that a request names, or the slot of a resized block.
    code: u32,
}

const ALLOCATE: u32 = 0;
const RESIZE: u32 = 1;
const FREE: u32 = 2;
const FAILED: u32 = 3;
const KIND: u32 = 3;
const BEHIND_KIND: u32 = 2;

impl Step {
    const NONE: Step = Step { size: 0, slot: 0, code: FAILED };

    #[inline(always)]
    pub(super) fn of(event: &Event) -> Step {
        let slot = |block: u64| block.min(u64::from(u32::MAX)) as u32;
        match *event {
            Event::Allocate { block, kind, size, align } => {
                let named = kind.named_align(align);
                Step { size, slot: slot(block), code: ALLOCATE | named.trailing_zeros() << BEHIND_KIND }
            }
            Event::Resize { block, becomes, size } => {
                Step { size, slot: slot(block), code: RESIZE | slot(becomes) << BEHIND_KIND }
            }
            Event::Free { block } => Step { size: 0, slot: slot(block), code: FREE },
            // Changes of threads are no calls, and not passed on.
            Event::Failed { .. } | Event::Thread { .. } => Step::NONE,
        }
    }

    /// Returns the slot of the block that the call frees, resizes or creates.
    #[inline(always)]
    pub(super) fn slot(self) -> u64 {
        u64::from(self.slot)
    }

    /// Returns the event, without what does not affect placement.
    #[inline(always)]
    pub(super) fn event(self) -> Event {
        let (block, size, behind) = (u64::from(self.slot), self.size, self.code >> BEHIND_KIND);
        match self.code & KIND {
            ALLOCATE => Event::Allocate { block, kind: Kind::Aligned, size, align: 1 << (behind & 63) },
            RESIZE => Event::Resize { block, becomes: u64::from(behind), size },
            FREE => Event::Free { block },
            _ => Event::Failed { size: 0, align: 1 },
        }
    }
}

/// Returns `steps`, each with the one whose block is to be asked for now: the places of old blocks are in no cache.
#[inline(always)]
pub(super) fn with_later(steps: &[Step]) -> impl Iterator<Item = (Step, Step)> {
    const AHEAD: usize = 16;
    let later = steps.iter().skip(AHEAD).chain(std::iter::repeat(steps.last().unwrap_or(&Step::NONE)));
    steps.iter().copied().zip(later.copied())
}

/// Consecutive calls.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) steps: Vec<Step>,
    /// The classes of the blocks that the events create, by size, age and call site; empty if no map is drawn.
    pub(super) classes: Vec<[u8; 3]>,
    /// The number of the block in each slot after the last of the events, if a heap asked for it.
    pub(super) numbers: Option<Vec<u64>>,
}

impl Batch {
    /// Reads the next calls, with their blocks renumbered; none at the end of the trace.
    pub(super) fn read(trace: &mut Reader<'_>, slots: &mut Slots) -> Result<Option<Batch>, ReplayError> {
        let mut steps = Vec::with_capacity(BATCH);
        let _ = trace.try_for_each_event(|event| {
            if event.is_call() {
                steps.push(Step::of(&slots.renumber(event)));
            }
            if steps.len() < BATCH { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        Ok((!steps.is_empty()).then(|| Batch { steps, ..Batch::default() }))
    }

    /// Whether there is room for another event.
    pub(super) fn has_room(&self) -> bool {
        self.steps.len() < BATCH
    }
}

/// Has each of `heaps` take all batches that `next` returns, in order, in a thread of its own.
///
/// # Errors
/// That the system has no room for a thread per heap; the first error of `next`; without one, that of the first of
/// `heaps` that has one.
pub(super) fn relay<H: Send>(
    heaps: &mut [H],
    take: impl Fn(&mut H, &Batch) -> Result<(), ReplayError> + Sync,
    mut next: impl FnMut() -> Result<Option<Batch>, ReplayError>,
) -> Result<(), ReplayError> {
    let take = &take;
    let run =
        move |heap: &mut H, batches: Receiver<Arc<Batch>>| batches.iter().try_for_each(|batch| take(heap, &batch));
    thread::scope(|scope| {
        let start = |heap| {
            let (batches, received) = sync_channel(BEHIND);
            let thread = thread::Builder::new().spawn_scoped(scope, move || run(heap, received));
            Ok((batches, thread.map_err(ReplayError::NoThread)?))
        };
        let started = heaps.iter_mut().map(start).collect::<Result<Vec<_>, ReplayError>>()?;
        let (batches, threads): (Vec<SyncSender<Arc<Batch>>>, Vec<_>) = started.into_iter().unzip();
        let read = pass_on(&batches, &mut next);
        drop(batches);
        let ends: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        let mut ends = ends.into_iter().map(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        read.and(ends.by_ref().find(Result::is_err).unwrap_or(Ok(())))
    })
}

/// Sends all batches to all heaps, until one of them has ended.
fn pass_on(
    heaps: &[SyncSender<Arc<Batch>>],
    next: &mut impl FnMut() -> Result<Option<Batch>, ReplayError>,
) -> Result<(), ReplayError> {
    while let Some(batch) = next()? {
        let batch = Arc::new(batch);
        if heaps.iter().any(|heap| heap.send(batch.clone()).is_err()) {
            break;
        }
    }
    Ok(())
}
