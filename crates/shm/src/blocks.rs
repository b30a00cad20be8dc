//! The blocks of a segment.

use heapwright_shared::{BlockInfo, BlockState, Offset, Snapshot};

/// The used block that starts at `offset`, among `blocks` in address order.
pub fn used_block(blocks: &[BlockInfo], offset: Offset) -> Option<&BlockInfo> {
    let at = blocks.binary_search_by_key(&offset.get(), |block| block.offset.get()).ok()?;
    blocks.get(at).filter(|block| block.state == BlockState::Used)
}

/// Returns the number of used blocks, those of slabs included. The counters count a slab as one.
pub fn used_blocks(snapshot: &Snapshot) -> u64 {
    snapshot.blocks.iter().filter(|block| block.state == BlockState::Used).count() as u64
}
