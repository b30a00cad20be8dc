//! Statistics of the page heap, whose blocks are slabs and long blocks.

use heapwright_heaps::{BlockState, Counters, HoleStats, PageReturns};

use heapwright_slabs::arena::ARENA;

/// Returns the counters of the page heap.
#[must_use]
pub fn page_counters() -> Option<Counters> {
    ARENA.lock()?.pages.counters()
}

/// Returns statistics of the holes of the page heap.
#[must_use]
pub fn page_holes() -> Option<HoleStats> {
    Some(ARENA.lock()?.pages.holes())
}

/// Calls `visit` with the length of each hole of the page heap, in address order.
pub fn each_page_hole(mut visit: impl FnMut(usize)) {
    if let Some(arena) = ARENA.lock() {
        arena.pages.blocks().filter(|block| block.state == BlockState::Free).for_each(|hole| visit(hole.size));
    }
}

/// Returns what was purged so far: the bytes of holes and slabs, and all other figures of holes. Pages count that may
/// not have been in memory.
#[must_use]
pub fn page_returns() -> Option<PageReturns> {
    let holes = ARENA.lock()?.pages.returns();
    Some(PageReturns { bytes: holes.bytes + ARENA.purged() as u64, ..holes })
}
