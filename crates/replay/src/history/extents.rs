//! What an event does to the bytes of a heap.

use heapwright_placement::Engine;
use heapwright_trace::Event;

use crate::simulation::Simulation;

/// A used block: its bytes in the heap, header and rounding included, and what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// Where it starts and ends, in bytes from the region's start.
    pub(super) start: usize,
    pub(super) end: usize,
    /// Its number in the trace.
    pub(super) block: u64,
    /// Bytes, as asked.
    pub(super) size: usize,
}

/// The blocks that an event took away and brought. A resized block is both, wherever it lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Exchange {
    pub(super) gone: Option<Extent>,
    pub(super) came: Option<Extent>,
}

/// The numbers of the block that an event takes away and of the one that it brings.
#[inline]
pub(super) fn blocks_of(event: &Event) -> (Option<u64>, Option<u64>) {
    match *event {
        Event::Allocate { block, .. } => (None, Some(block)),
        Event::Resize { block, becomes, .. } => (Some(block), Some(becomes)),
        Event::Free { block } => (Some(block), None),
        Event::Failed { .. } | Event::Thread { .. } => (None, None),
    }
}

/// Lets an event happen and says what it did to the heap's bytes.
#[inline]
pub(super) fn apply(simulation: &mut Simulation, event: &Event, header: usize) -> Exchange {
    let (gone, came) = blocks_of(event);
    let gone = gone.and_then(|block| extent(simulation, block, header));
    simulation.apply(event);
    Exchange { gone, came: came.and_then(|block| extent(simulation, block, header)) }
}

/// The bytes of block `number`, if it lives.
pub(super) fn extent(simulation: &Simulation, number: u64, header: usize) -> Option<Extent> {
    let placed = simulation.live_block(number)?;
    let usable = simulation.engine().usable_size(placed.offset)?;
    Some(Extent { start: placed.offset - header, end: placed.offset + usable, block: number, size: placed.size })
}
