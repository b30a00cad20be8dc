//! Blocks with mappings of their own.

use std::ops::Range;

use super::{FLAGS, MMAPPED};
use crate::mappings::Mapping;
use crate::memory::{Memory, PAGE, PageState};

/// Returns the blocks with mappings of their own: pages that begin with a header of such a chunk, in the mappings that
/// `is_other` does not claim. The kernel shows neighbours as one mapping. Pages not in memory are not looked at.
pub fn own_mappings(memory: &impl Memory, mappings: &[&Mapping]) -> Vec<Range<u64>> {
    let mut found = Vec::new();
    for mapping in mappings {
        let end = mapping.range.end;
        let mut at = mapping.range.start;
        while at < end {
            let count = ((end - at) / PAGE).min(4096) as usize;
            let states = memory.pages(at, count);
            let behind = at + count as u64 * PAGE;
            while at < behind {
                let state = states[states.len() - ((behind - at) / PAGE) as usize];
                match (state == PageState::Present).then(|| chunk(memory, at, end)).flatten() {
                    Some(length) => {
                        found.push(at..at + length);
                        at += length;
                    }
                    None => at += PAGE,
                }
            }
        }
    }
    found
}

/// Returns the length of the chunk at the start of a page.
fn chunk(memory: &impl Memory, page: u64, end: u64) -> Option<u64> {
    let mut header = [0; 16];
    if !memory.read(page, &mut header) {
        return None;
    }
    let (before, size) = header.split_at(8);
    let (before, size) = (u64::from_le_bytes(before.try_into().ok()?), u64::from_le_bytes(size.try_into().ok()?));
    let length = size & !FLAGS;
    let is_chunk =
        size & FLAGS == MMAPPED && before == 0 && length != 0 && length.is_multiple_of(PAGE) && length <= end - page;
    is_chunk.then_some(length)
}
