//! The byte ranges that an event frees and uses.

use heapwright_placement::Engine;
use heapwright_trace::Event;

use crate::simulation::Simulation;

/// The extent of a used block in the heap, including header and rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// Start and end, in bytes from the start of the region.
    pub(super) start: usize,
    pub(super) end: usize,
    /// The number of the block in the trace.
    pub(super) block: u64,
    /// The requested size in bytes.
    pub(super) size: usize,
}

/// The blocks that an event removed and added. A resized block counts as both, even if resized in place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Exchange {
    pub(super) removed: Option<Extent>,
    pub(super) added: Option<Extent>,
}

/// Returns the numbers of the block that an event removes and of the one that it adds.
#[inline]
pub(super) fn blocks_of(event: &Event) -> (Option<u64>, Option<u64>) {
    match *event {
        Event::Allocate { block, .. } => (None, Some(block)),
        Event::Resize { block, becomes, .. } => (Some(block), Some(becomes)),
        Event::Free { block } => (Some(block), None),
        Event::Failed { .. } | Event::Thread { .. } => (None, None),
    }
}

/// Applies an event; returns the blocks that it removed and added.
#[inline]
pub(super) fn apply(simulation: &mut Simulation, event: &Event, header: usize) -> Exchange {
    let (removed, added) = blocks_of(event);
    let removed = removed.and_then(|block| extent(simulation, block, header));
    simulation.apply(event);
    Exchange { removed, added: added.and_then(|block| extent(simulation, block, header)) }
}

/// Returns the extent of block `number`, if it is live.
pub(super) fn extent(simulation: &Simulation, number: u64, header: usize) -> Option<Extent> {
    let placed = simulation.live_block(number)?;
    let usable = simulation.engine().usable_size(placed.offset)?;
    Some(Extent { start: placed.offset - header, end: placed.offset + usable, block: number, size: placed.size })
}
