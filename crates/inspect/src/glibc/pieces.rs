//! Main arenas in pieces: where the program break is not used (by a second C library, or with reserved huge pages), each
//! growth is a mapping of its own.

use super::{ALIGN, FLAGS, HEADER, MMAPPED, SHORTEST, Segment};
use crate::mappings::{Mapping, neighbours};
use crate::memory::{Memory, PAGE, Words};

/// Flag of a chunk's size: it is of another arena than the main one.
const OTHER_ARENA: u64 = 4;

/// Returns the pieces of a main arena behind `last`, the one that has the top: the system puts each new mapping directly
/// in front of the one before. Those that lie elsewhere are not found. All have `system_bytes` at most.
pub fn behind(memory: &impl Memory, mappings: &[Mapping], last: &Segment, system_bytes: u64) -> Vec<Segment> {
    let mut found = Vec::new();
    let Some(joined) = neighbours(mappings, last.range.end.saturating_sub(1)) else { return found };
    let mut words = Words::new(memory, system_bytes);
    let mut left = system_bytes.saturating_sub(last.range.end - last.range.start);
    let mut at = last.range.end;
    while at < joined.end && left > 0 {
        if let Some(length) = own_block(&mut words, at) {
            at = at.saturating_add(length);
            continue;
        }
        let limit = joined.end.min(at.saturating_add(left));
        let Some(end) = end_of_piece(&mut words, at, limit) else { break };
        left -= end - at;
        found.push(Segment::new(at..end, None, mappings));
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

/// Returns the end of the piece that begins at `start`: chunks, and then two headers without blocks at a page's end.
fn end_of_piece(words: &mut Words<'_, impl Memory>, start: u64, limit: u64) -> Option<u64> {
    let mut at = start;
    while at < limit {
        let size = words.at(at + 8)?;
        let length = size & !FLAGS;
        if length == HEADER {
            let end = at + 2 * HEADER;
            let is_end = words.at(at + HEADER + 8)? & !FLAGS == HEADER && end.is_multiple_of(PAGE) && end <= limit;
            return is_end.then_some(end);
        }
        let is_chunk = length >= SHORTEST && length.is_multiple_of(ALIGN) && size & (MMAPPED | OTHER_ARENA) == 0;
        at = at.checked_add(length).filter(|_| is_chunk)?;
    }
    None
}
