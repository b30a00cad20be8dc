//! Blocks with mappings of their own.

use std::ops::Range;

use super::{FLAGS, MMAPPED};
use crate::mappings::Mapping;
use crate::memory::{HEAD, Memory, PAGE, PageState};

/// Pages that are looked at together.
const PART: u64 = 4096;

/// Returns the blocks with mappings of their own: pages that begin with a header of such a chunk, in `mappings`, which
/// are in address order. The kernel shows neighbours as one mapping, and a block of which a part has other access or
/// other advice as several. Pages not in memory are not looked at.
pub fn own_mappings(memory: &impl Memory, mappings: &[&Mapping]) -> Vec<Range<u64>> {
    let mut found: Vec<Range<u64>> = Vec::new();
    for joined in mappings.chunk_by(|one, next| one.range.end == next.range.start) {
        let last = joined.last().map_or(0, |mapping| mapping.range.end);
        for mapping in joined.iter().filter(|mapping| mapping.is_readable() && mapping.rss > 0) {
            find_in(memory, &mapping.range, last, &mut found);
        }
    }
    found
}

/// Finds blocks that begin in `range` and end at `last` at the latest, behind those that were `found`.
fn find_in(memory: &impl Memory, range: &Range<u64>, last: u64, found: &mut Vec<Range<u64>>) {
    for part in (range.start..range.end).step_by((PART * PAGE) as usize) {
        let behind = found.last().map_or(0, |block| block.end);
        let count = ((range.end - part) / PAGE).min(PART);
        if part + count * PAGE <= behind {
            continue;
        }
        let states = memory.pages(part, count as usize);
        let present = states.iter().zip(0..).filter(|(state, _)| **state == PageState::Present);
        let starts: Vec<u64> = present.map(|(_, page)| part + page * PAGE).filter(|at| *at >= behind).collect();
        for (at, head) in memory.heads(&starts) {
            let is_behind = found.last().is_none_or(|block| block.end <= at);
            found.extend(chunk(&head, last - at).filter(|_| is_behind).map(|length| at..at + length));
        }
    }
}

/// Returns the length of the chunk whose header a page begins with; `longest` bytes of its mappings follow.
fn chunk(head: &[u8; HEAD], longest: u64) -> Option<u64> {
    let (words, _) = head.as_chunks();
    let (before, size) = (u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1]));
    let length = size & !FLAGS;
    let is_chunk = size & FLAGS == MMAPPED && before == 0 && length != 0 && length.is_multiple_of(PAGE);
    (is_chunk && length <= longest).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Image;

    #[test]
    fn a_block_may_be_several_mappings() {
        const START: u64 = 0x10_0000;
        let mut image = Image::default();
        let mut bytes = vec![0; 8 * PAGE as usize];
        for (page, pages) in [(0, 3), (3, 2), (5, 4)] {
            let at = (page * PAGE + 8) as usize;
            bytes[at..at + 8].copy_from_slice(&((pages * PAGE) | MMAPPED).to_le_bytes());
        }
        image.push(START, bytes);
        let mapping = |pages: Range<u64>, access: &str| Mapping {
            range: START + pages.start * PAGE..START + pages.end * PAGE,
            access: access.to_owned(),
            rss: PAGE,
            ..Mapping::default()
        };
        let mappings = [mapping(0..1, "rw-p"), mapping(1..2, "---p"), mapping(2..4, "rw-p"), mapping(4..8, "r--p")];
        let all: Vec<&Mapping> = mappings.iter().collect();
        let found = own_mappings(&image, &all);
        // The third would end behind the last mapping.
        assert_eq!(found, [START..START + 3 * PAGE, START + 3 * PAGE..START + 5 * PAGE]);
        // Mappings that are not neighbours are not joined.
        assert_eq!(own_mappings(&image, &[&mappings[0], &mappings[2]]), []);
    }
}
