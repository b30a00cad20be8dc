//! A heap before an event: everything that a policy considers.

use std::ops::Range;

use heapwright_placement::{BlockState, Engine, Rules};

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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Before {
    /// All holes in address order, including the free tail.
    pub holes: Vec<Hole>,
    /// Offset of the free tail; the heap's end if there is none.
    pub top: usize,
    /// Offset of the heap's end.
    pub end: usize,
    /// Next fit's rover: the end of the block that was placed last.
    pub rover: usize,
    /// The block that the event is about, with its header, if there is one.
    pub block: Range<usize>,
    /// Number of merges of holes so far.
    pub coalesces: u64,
}

impl Before {
    /// Copies the state of `engine` before something happens to the block whose bytes are `block`. Time: a walk of the
    /// heap.
    pub fn of(engine: &impl Engine, rover: usize, block: Range<usize>) -> Before {
        let free = engine.blocks().filter(|block| block.state == BlockState::Free);
        let holes = free.map(|block| Hole { start: block.offset, len: block.size }).collect();
        Before { holes, top: engine.top(), end: engine.heap_size(), rover, block, coalesces: coalesces(engine) }
    }

    /// Returns the heap after a merge of all holes that touch.
    pub fn merged(&self) -> Before {
        let holes = self.holes.chunk_by(|low, high| low.end() == high.start);
        let holes: Vec<Hole> = holes.map(|run| Hole { len: run.iter().map(|hole| hole.len).sum(), ..run[0] }).collect();
        let tail = holes.last().filter(|hole| hole.end() == self.end);
        Before { top: tail.map_or(self.end, |tail| tail.start), holes, ..self.clone() }
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

/// Returns the number of merges of holes so far.
pub fn coalesces(engine: &impl Engine) -> u64 {
    engine.counters().map_or(0, |counters| counters.coalesces)
}

/// What a block needs of a hole, in bytes, in a region that has every alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// The block's length with its header, a multiple of the granule.
    pub len: usize,
    /// The payload starts at a multiple of this.
    pub align: usize,
    /// The smallest unit of placement.
    pub granule: usize,
    /// The bytes in front of the payload.
    pub header: usize,
    /// The shortest hole.
    pub least_hole: usize,
}

impl Need {
    /// Returns the need of a request for `size` bytes of the engine at a multiple of `align`.
    pub fn of(size: usize, align: usize, rules: &Rules) -> Need {
        let [granule, header] = [rules.granule, rules.header].map(|bytes| bytes as usize);
        Need {
            len: size.max(1).next_multiple_of(granule) + header,
            align: align.max(granule),
            granule,
            header,
            least_hole: (rules.min_remainder as usize).max(1).next_multiple_of(granule),
        }
    }

    /// Returns the bytes that alignment leaves free in front of the block in a hole at `start`: none, or enough for a
    /// hole.
    pub fn gap(&self, start: usize) -> usize {
        let payload = start + self.header;
        match payload.next_multiple_of(self.align) - payload {
            0 => 0,
            gap => gap + self.least_hole.saturating_sub(gap).next_multiple_of(self.align),
        }
    }

    /// Returns whether the block fits the hole.
    pub fn fits(&self, hole: Hole) -> bool {
        hole.len >= self.len && hole.len - self.len >= self.gap(hole.start)
    }

    /// Returns a length that suffices wherever the hole starts.
    pub fn longest(&self) -> usize {
        let gap = if self.align == self.granule { 0 } else { self.align + self.least_hole - self.granule };
        self.len + gap
    }
}
