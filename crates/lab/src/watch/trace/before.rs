//! A heap before an event: all that a policy looks at.

use std::ops::Range;

use heapwright_placement::{BlockState, Engine};

/// A run of free bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    /// Where it starts.
    pub start: usize,
    /// Its length.
    pub len: usize,
}

impl Hole {
    /// Where it ends.
    pub fn end(self) -> usize {
        self.start + self.len
    }
}

/// A heap before an event.
#[derive(Clone, Debug, Default)]
pub struct Before {
    /// All holes in address order, the free tail among them.
    pub holes: Vec<Hole>,
    /// Where the free tail starts; where the heap ends when there is none.
    pub top: usize,
    /// Where the heap ends.
    pub end: usize,
    /// Where next fit goes on: just past the block that was placed last.
    pub rover: usize,
    /// The block that the event is about, all of it, if there is one.
    pub block: Range<usize>,
}

impl Before {
    /// The heap of `engine` as it is now, before something happens to the block at `block`. Time: a walk of the heap.
    pub fn of(engine: &impl Engine, rover: usize, block: Option<usize>) -> Before {
        let free = engine.blocks().filter(|block| block.state == BlockState::Free);
        let holes = free.map(|block| Hole { start: block.offset, len: block.size }).collect();
        let block = block.map_or(0..0, |start| start..start + engine.usable_size(start).unwrap_or(0));
        Before { holes, top: engine.top(), end: engine.heap_size(), rover, block }
    }

    /// The hole that the byte at `offset` lies in.
    pub fn hole_around(&self, offset: usize) -> Option<Hole> {
        let after = self.holes.partition_point(|hole| hole.start <= offset);
        let hole = *self.holes.get(after.checked_sub(1)?)?;
        (offset < hole.end()).then_some(hole)
    }

    /// Whether the hole is the free tail.
    pub fn is_tail(&self, hole: Hole) -> bool {
        hole.start >= self.top
    }
}

/// What a block needs of a hole, in bytes: a heap without headers whose region is aligned to everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// The block's length, whole granules.
    pub len: usize,
    /// The block starts at a multiple of this.
    pub align: usize,
    /// The smallest unit, and the shortest that a hole can be.
    pub granule: usize,
}

impl Need {
    /// The need of a request.
    pub fn of(size: usize, align: usize, granule: usize) -> Need {
        Need { len: size.max(1).next_multiple_of(granule), align: align.max(granule), granule }
    }

    /// What has to be left free in front of the block in a hole at `start`.
    pub fn gap(&self, start: usize) -> usize {
        start.next_multiple_of(self.align) - start
    }

    /// Whether the hole can hold the block.
    pub fn fits(&self, hole: Hole) -> bool {
        hole.len >= self.len && hole.len - self.len >= self.gap(hole.start)
    }

    /// A length that holds the block wherever the hole starts.
    pub fn longest(&self) -> usize {
        if self.align == self.granule { self.len } else { self.len + self.align }
    }
}
