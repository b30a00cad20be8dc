//! The memory of main arenas, also of those in pieces: where the program break is not used (by a second C library, or
//! with reserved huge pages) or something is in its way, each growth is a mapping of its own.

use std::ops::Range;

use super::arena::{Arena, Segment, TOP, top};
use super::{ALIGN, FLAGS, HEADER, MMAPPED, SHORTEST, align_up};
use crate::mappings::{Mapping, mapping_of, neighbours};
use crate::memory::{Memory, PAGE, Words};

/// Flag of a chunk's size: it is of another arena than the main one.
const OTHER_ARENA: u64 = 4;

/// Flag of an arena, in its second word of four bytes: its memory consists of pieces.
const NONCONTIGUOUS: u64 = 2;

/// Adds to a main `arena` its memory.
pub(super) fn with_memory(
    memory: &impl Memory,
    mappings: &[Mapping],
    bins: u64,
    heap_start: Option<u64>,
    arena: Arena,
) -> Arena {
    let is_in_pieces = memory.word(arena.address).is_some_and(|word| (word >> 32) & NONCONTIGUOUS != 0);
    let is_break = |address: u64| mappings.iter().any(|one| one.name == "[heap]" && one.range.contains(&address));
    let is_trimmed = !is_in_pieces || top(memory, bins).is_some_and(|top| is_break(top.start));
    let longest = if is_in_pieces { arena.system_bytes } else { u64::MAX };
    let last = main_segment(memory, mappings, bins, heap_start, longest);
    let others = last.as_ref().filter(|_| is_in_pieces);
    let others = others.map(|last| other_pieces(memory, mappings, last, heap_start, arena.system_bytes));
    let segments = last.into_iter().chain(others.into_iter().flatten()).collect();
    Arena { is_main: true, is_trimmed, segments, ..arena }
}

/// Returns the part of a main arena that has the top. It is not longer than `longest`: in front of it may be another's.
fn main_segment(
    memory: &impl Memory,
    mappings: &[Mapping],
    bins: u64,
    heap_start: Option<u64>,
    longest: u64,
) -> Option<Segment> {
    // Before the first block the arena itself stands for the top.
    if memory.word(bins - TOP) == Some(bins - HEADER) {
        return None;
    }
    let top = top(memory, bins);
    let named = mappings.iter().find(|mapping| mapping.name == "[heap]").map(|mapping| mapping.range.start);
    // While the program runs, the top may have moved to where nothing was read.
    let inside = top.as_ref().map(|top| top.start).or(named)?;
    let heap = neighbours(mappings, inside)?;
    // Of several pieces, the first may lie behind. Without names, what lies in front may be something else.
    let heap_start = heap_start.filter(|start| *start <= inside);
    let first = heap_start.or(named).or_else(|| Some(mapping_of(mappings, inside)?.start))?;
    let end = match &top {
        // Cut off a moment ago, it has no size yet: the rest of the memory that is grown by the program break.
        Some(top) if !top.is_empty() || longest != u64::MAX => top.end.min(heap.end),
        _ => heap.end,
    };
    let start = align_up(first.max(heap.start).max(end.saturating_sub(longest)), ALIGN);
    let top = top.map(|top| top.start);
    (start <= top.unwrap_or(end)).then(|| Segment::new(start..end, top, mappings))
}

/// Returns the other pieces of a main arena than `last`, the one that has the top. The system puts each new mapping
/// directly in front of the one before; the first piece may be where the program break was, at `heap_start`. Those that
/// lie elsewhere are not found. All have `system_bytes` at most.
fn other_pieces(
    memory: &impl Memory,
    mappings: &[Mapping],
    last: &Segment,
    heap_start: Option<u64>,
    system_bytes: u64,
) -> Vec<Segment> {
    let mut words = Words::new(memory, system_bytes);
    let mut left = system_bytes.saturating_sub(last.range.end - last.range.start);
    let mut found: Vec<Range<u64>> = Vec::new();
    let starts = [Some(last.range.end), heap_start.map(|start| align_up(start, ALIGN))];
    for start in starts.into_iter().flatten() {
        let is_known = last.range.contains(&start) || found.iter().any(|piece| piece.contains(&start));
        let Some(joined) = neighbours(mappings, start).filter(|_| !is_known) else { continue };
        let from_here = pieces_in(&mut words, start..joined.end, left);
        left -= from_here.iter().map(|piece| piece.end - piece.start).sum::<u64>();
        found.extend(from_here);
    }
    found.into_iter().map(|piece| Segment::new(piece, None, mappings)).collect()
}

/// Returns the pieces that follow each other from the start of `range` on, with blocks that have mappings of their own
/// between them. All have `longest` bytes at most.
fn pieces_in(words: &mut Words<'_, impl Memory>, range: Range<u64>, longest: u64) -> Vec<Range<u64>> {
    let (mut at, mut left, mut found) = (range.start, longest, Vec::new());
    while at < range.end && left > 0 {
        if let Some(length) = own_block(words, at) {
            at = at.saturating_add(length);
            continue;
        }
        let limit = range.end.min(at.saturating_add(left));
        let Some(end) = end_of_piece(words, at, limit) else { break };
        left -= end - at;
        found.push(at..end);
        at = end;
    }
    found
}

/// Returns the length of the block with a mapping of its own that begins at `at`.
fn own_block(words: &mut Words<'_, impl Memory>, at: u64) -> Option<u64> {
    let size = words.at(at.checked_add(8)?)?;
    let length = size & !FLAGS;
    (size & FLAGS == MMAPPED && length != 0 && length.is_multiple_of(PAGE)).then_some(length)
}

/// Returns the end of the piece that begins at `start`: chunks, and then headers without blocks at a page's end. There
/// are two, and a third if that is all that was left of the top.
fn end_of_piece(words: &mut Words<'_, impl Memory>, start: u64, limit: u64) -> Option<u64> {
    let mut at = start;
    while at < limit {
        let size = words.at(at + 8)?;
        let length = size & !FLAGS;
        if length == HEADER {
            return end_of_headers(words, at).filter(|end| *end <= limit);
        }
        let is_chunk = length >= SHORTEST && length.is_multiple_of(ALIGN) && size & (MMAPPED | OTHER_ARENA) == 0;
        at = at.checked_add(length).filter(|_| is_chunk)?;
    }
    None
}

/// Returns the end of the two or three headers without blocks that begin at `start` and end with a page.
fn end_of_headers(words: &mut Words<'_, impl Memory>, start: u64) -> Option<u64> {
    let is_header = |at: u64| Some(words.at(at + 8)? & !FLAGS == HEADER);
    let ends = [2, 3].map(|headers| start + headers * HEADER);
    let end = ends.into_iter().find(|end| end.is_multiple_of(PAGE))?;
    (start + HEADER..end)
        .step_by(HEADER as usize)
        .map(is_header)
        .all(|is_header| is_header == Some(true))
        .then_some(end)
}
