//! An arena of glibc's malloc, and its memory.

use std::ops::Range;

use super::{ALIGN, FLAGS};
use crate::mappings::Mapping;
use crate::memory::Memory;

/// From the bins back to the top chunk's address.
pub(super) const TOP: u64 = 16;

/// The bound of addresses; damaged memory may claim more.
pub(super) const ADDRESSES: u64 = 1 << 47;

/// Memory in which chunks lie one behind the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// From the first chunk to behind the last one, the top included.
    pub range: Range<u64>,
    /// The top chunk, where the arena has it here.
    pub top: Option<u64>,
    /// Parts that the program has no access to: it has taken that from itself.
    pub closed: Vec<Range<u64>>,
}

impl Segment {
    /// Returns a segment of a process with these mappings.
    pub fn new(range: Range<u64>, top: Option<u64>, mappings: &[Mapping]) -> Segment {
        let behind = mappings.partition_point(|mapping| mapping.range.end <= range.start);
        let inside = mappings[behind..].iter().take_while(|mapping| mapping.range.start < range.end);
        let closed = inside.filter(|mapping| !mapping.is_readable()).map(|mapping| mapping.range.clone()).collect();
        Segment { range, top, closed }
    }
}

/// An arena.
#[derive(Clone, Debug, Default)]
pub struct Arena {
    /// Its address.
    pub address: u64,
    /// The number of the heap that it is of: every copy of the C library has one.
    pub heap: usize,
    /// Whether it is the main arena of this heap.
    pub is_main: bool,
    /// Whether a trim gives back its top: that of a main arena ends at the program break, or else it does not.
    pub is_trimmed: bool,
    /// Bytes that it has from the system; 0 where that is impossible.
    pub system_bytes: u64,
    /// First blocks of its fast bins; `None` where this version has none.
    pub fast: Option<u64>,
    /// Its memory, the one with the top first.
    pub segments: Vec<Segment>,
}

/// Returns the top chunk's address and end.
pub(super) fn top(memory: &impl Memory, bins: u64) -> Option<Range<u64>> {
    let top = memory.word(bins - TOP)?;
    let size = memory.word(top.checked_add(8)?)? & !FLAGS;
    let is_sound = top.is_multiple_of(ALIGN) && size < ADDRESSES;
    is_sound.then(|| top..top.saturating_add(size))
}
