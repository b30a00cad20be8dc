//! What is in a heap, as its own walk tells it, and what must be in the blocks.

use std::collections::BTreeMap;

use heapwright_shared::{BlockState, Offset, SharedHeap};

use crate::words;

/// A used block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    pub size: usize,
    /// The process that it belongs to is dead.
    pub left_behind: bool,
}

/// The used blocks, the roots and the length of a heap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Census {
    pub used: BTreeMap<u64, Used>,
    pub roots: BTreeMap<String, u64>,
    pub size: usize,
}

impl Census {
    /// Walks a heap.
    ///
    /// # Errors
    /// When its blocks do not lie end to end from its start to its end, or another of its own lists contradicts the
    /// walk.
    pub fn take(heap: &SharedHeap) -> Result<Census, String> {
        let mut used = BTreeMap::new();
        let mut next = None;
        let mut total = 0;
        for block in heap.blocks().map_err(words("blocks"))? {
            let (offset, size) = (block.offset.get(), block.size);
            if next.is_some_and(|next| next != offset) {
                return Err(format!("there is a gap or an overlap before the block at {offset:#x}"));
            }
            next = Some(offset + size as u64);
            total += size;
            if block.state == BlockState::Used {
                used.insert(offset, Used { size, left_behind: false });
            }
        }
        let size = heap.size().map_err(words("size"))?;
        if total != size {
            return Err(format!("the blocks are {total} bytes long, the heap {size}"));
        }
        for block in heap.left_behind().map_err(words("left_behind"))? {
            let Some(used) = used.get_mut(&block.offset.get()) else {
                return Err(format!("no used block at {:?}, which a dead process left behind", block.offset));
            };
            used.left_behind = true;
        }
        let roots = heap.roots().map_err(words("roots"))?;
        let roots = roots.into_iter().map(|root| (root.name, root.offset.get())).collect();
        Ok(Census { used, roots, size })
    }
}

/// Fills the whole words of the first `bytes` of a block with what only the block of this tag holds.
pub fn fill(heap: &SharedHeap, block: Offset, bytes: usize, tag: u64) {
    let start = heap.pointer(block).cast::<u64>();
    for at in 0..bytes / 8 {
        // SAFETY: the block is the caller's, aligned for words and at least `bytes` long.
        unsafe { start.add(at).write(word_of(tag, at)) };
    }
}

/// Looks whether `bytes` of a block are as [`fill`] left them.
///
/// # Errors
/// The first word that is not.
pub fn verify(heap: &SharedHeap, block: Offset, bytes: usize, tag: u64) -> Result<(), String> {
    let start = heap.pointer(block).cast::<u64>();
    for at in 0..bytes / 8 {
        // SAFETY: the block is used, aligned for words and at least `bytes` long, and no process writes to it.
        let found = unsafe { start.add(at).read() };
        if found != word_of(tag, at) {
            return Err(format!("word {at} of block {tag} at {block:?} is {found:#x}, not {:#x}", word_of(tag, at)));
        }
    }
    Ok(())
}

fn word_of(tag: u64, at: usize) -> u64 {
    (tag + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (at as u64).wrapping_mul(0xd6e8_feb8_6659_fd93)
}
