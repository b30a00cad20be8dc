//! Blocks with mappings of their own.

use std::ops::Range;

use super::{FLAGS, MMAPPED};
use crate::mappings::Mapping;
use crate::memory::{HEAD, Memory, PAGE, PageState};

/// Pages that are looked at together.
const PART: u64 = 4096;

/// Returns the blocks with mappings of their own: pages that begin with a header of such a chunk, in `mappings`. The
/// kernel shows neighbours as one mapping. Pages not in memory are not looked at.
pub fn own_mappings(memory: &impl Memory, mappings: &[&Mapping]) -> Vec<Range<u64>> {
    let mut found: Vec<Range<u64>> = Vec::new();
    for mapping in mappings.iter().filter(|mapping| mapping.rss > 0) {
        let Range { start, end } = mapping.range;
        for part in (start..end).step_by((PART * PAGE) as usize) {
            let behind = found.last().map_or(start, |block| block.end);
            let count = ((end - part) / PAGE).min(PART);
            if part + count * PAGE <= behind {
                continue;
            }
            let states = memory.pages(part, count as usize);
            let present = states.iter().zip(0..).filter(|(state, _)| **state == PageState::Present);
            let starts: Vec<u64> = present.map(|(_, page)| part + page * PAGE).filter(|at| *at >= behind).collect();
            for (at, head) in memory.heads(&starts) {
                let is_behind = found.last().is_none_or(|block| block.end <= at);
                found.extend(chunk(&head, end - at).filter(|_| is_behind).map(|length| at..at + length));
            }
        }
    }
    found
}

/// Returns the length of the chunk whose header a page begins with; `longest` bytes of the mapping follow.
fn chunk(head: &[u8; HEAD], longest: u64) -> Option<u64> {
    let (words, _) = head.as_chunks();
    let (before, size) = (u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1]));
    let length = size & !FLAGS;
    let is_chunk = size & FLAGS == MMAPPED && before == 0 && length != 0 && length.is_multiple_of(PAGE);
    (is_chunk && length <= longest).then_some(length)
}
