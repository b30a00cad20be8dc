//! Finds the block of an offset.
//!
//! Nothing here trusts the map: whatever its cells contain, a result is a range within the heap, and a walk from block
//! to block reaches the heap's end.

use crate::engine::{Block, BlockState};
use crate::error::FreeError;
use crate::map::BlockMap;
use crate::state::State;

/// Returns the start of the used block whose payload is at `offset`.
#[inline(always)]
pub(crate) fn used_block(state: &State, map: &BlockMap<'_>, offset: usize) -> Option<usize> {
    let granule = (offset >> state.shift()).checked_sub(usize::from(state.header))?;
    let aligned = offset & ((1 << state.shift()) - 1) == 0;
    (aligned && granule < state.top && map.is_start(granule) && !map.is_hole(granule)).then_some(granule)
}

/// Returns how many payload bytes the used block at `offset` has.
#[inline(always)]
pub(crate) fn usable_size(state: &State, map: &BlockMap<'_>, offset: usize) -> Option<usize> {
    let start = used_block(state, map, offset)?;
    let len = map.next_start(start).min(state.top) - start;
    Some(len.saturating_sub(usize::from(state.header)) << state.shift())
}

/// Returns why `offset` is not the payload of a used block.
#[cold]
#[inline(never)]
pub(crate) fn diagnose(state: &State, map: &BlockMap<'_>, offset: usize) -> FreeError {
    match block_containing(state, map, offset) {
        Some(Block { state: BlockState::Free, .. }) => FreeError::AlreadyFree,
        _ => FreeError::NotABlock,
    }
}

/// Returns the block, used or free, that contains the byte at `offset`.
pub(crate) fn block_containing(state: &State, map: &BlockMap<'_>, offset: usize) -> Option<Block> {
    let shift = state.shift();
    let granule = offset >> shift;
    if granule >= state.end {
        return None;
    }
    let (start, end, free) = if granule >= state.top {
        (state.top, state.end, true)
    } else {
        let start = map.start_of(granule);
        (start, map.next_start(start).clamp(granule + 1, state.top), map.is_hole(start))
    };
    let state = if free { BlockState::Free } else { BlockState::Used };
    Some(Block { offset: start << shift, size: (end - start) << shift, state })
}
