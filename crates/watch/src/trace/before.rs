//! A heap before an event: everything that a policy considers.

use std::ops::Range;

use heapwright_placement::{BlockState, Engine};

/// A run of free bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    /// Its offset.
    pub start: usize,
    /// Its length.
    pub len: usize,
}

impl Hole {
    /// Returns the offset of its end.
    pub fn end(self) -> usize {
        self.start + self.len
    }
}

/// A heap before an event.
#[derive(Clone, Debug, Default)]
pub struct Before {
    /// All holes in address order, including the free tail.
    pub holes: Vec<Hole>,
    /// Offset of the free tail; the heap's end if there is none.
    pub top: usize,
    /// Offset of the heap's end.
    pub end: usize,
    /// Next fit's rover: the end of the block that was placed last.
    pub rover: usize,
    /// The block that the event is about, if there is one.
    pub block: Range<usize>,
}

impl Before {
    /// Copies the state of `engine` before something happens to the block at `block`. Time: a walk of the heap.
    pub fn of(engine: &impl Engine, rover: usize, block: Option<usize>) -> Before {
        let free = engine.blocks().filter(|block| block.state == BlockState::Free);
        let holes = free.map(|block| Hole { start: block.offset, len: block.size }).collect();
        let block = block.map_or(0..0, |start| start..start + engine.usable_size(start).unwrap_or(0));
        Before { holes, top: engine.top(), end: engine.heap_size(), rover, block }
    }

    /// Returns the hole that contains the byte at `offset`.
    pub fn hole_around(&self, offset: usize) -> Option<Hole> {
        let after = self.holes.partition_point(|hole| hole.start <= offset);
        let hole = *self.holes.get(after.checked_sub(1)?)?;
        (offset < hole.end()).then_some(hole)
    }

    /// Returns whether the hole is the free tail.
    pub fn is_tail(&self, hole: Hole) -> bool {
        hole.start >= self.top
    }
}

/// What a block needs of a hole, in bytes: in a heap without headers whose region has every alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// The block's length, a multiple of the granule.
    pub len: usize,
    /// The block starts at a multiple of this.
    pub align: usize,
    /// The smallest unit of placement, and the shortest hole.
    pub granule: usize,
}

impl Need {
    /// Returns the need of a request.
    pub fn of(size: usize, align: usize, granule: usize) -> Need {
        Need { len: size.max(1).next_multiple_of(granule), align: align.max(granule), granule }
    }

    /// Returns the bytes that alignment leaves free in front of the block in a hole at `start`.
    pub fn gap(&self, start: usize) -> usize {
        start.next_multiple_of(self.align) - start
    }

    /// Returns whether the block fits the hole.
    pub fn fits(&self, hole: Hole) -> bool {
        hole.len >= self.len && hole.len - self.len >= self.gap(hole.start)
    }

    /// Returns a length that suffices wherever the hole starts.
    pub fn longest(&self) -> usize {
        if self.align == self.granule { self.len } else { self.len + self.align }
    }
}
