//! Free blocks in lists of their own, which the chunks themselves do not show: fast bins and thread caches.

use std::collections::HashSet;

use super::{ALIGN, Arena, FLAGS, HEADER, SHORTEST};
use crate::memory::Memory;

/// Fast bins of an arena.
const FAST_BINS: u64 = 10;

/// Bound of what damaged memory may claim.
const LONGEST_LIST: usize = 1 << 20;

/// Returns the chunks in the fast bins of `arena`, and the number of lists that are damaged.
pub fn fast_blocks(memory: &impl Memory, arena: &Arena) -> (HashSet<u64>, u64) {
    let (mut found, mut damaged) = (HashSet::new(), 0);
    let Some(bins) = arena.fast else { return (found, damaged) };
    for bin in 0..FAST_BINS {
        let first = memory.word(bins + bin * 8).unwrap_or(0);
        let followed = LINKS.map(|links| fast_list(memory, arena, first, links));
        let [protected, plain] = followed;
        let is_plain = !plain.is_damaged && protected.is_damaged;
        let list = if is_plain { plain } else { protected };
        damaged += u64::from(list.is_damaged);
        found.extend(list.chunks);
    }
    (found, damaged)
}

/// The chunks of a fast bin.
struct FastList {
    chunks: HashSet<u64>,
    is_damaged: bool,
}

fn fast_list(memory: &impl Memory, arena: &Arena, first: u64, links: Links) -> FastList {
    let (mut chunk, mut chunks) = (first, HashSet::new());
    while chunk != 0 {
        let is_inside = arena.segments.iter().any(|segment| segment.range.contains(&chunk));
        if !chunk.is_multiple_of(ALIGN) || !is_inside || chunks.len() > LONGEST_LIST || !chunks.insert(chunk) {
            return FastList { chunks, is_damaged: true };
        }
        let Some(next) = links.next(memory, chunk + HEADER) else { break };
        chunk = next;
    }
    FastList { chunks, is_damaged: false }
}

/// How the links of lists are stored. One of them does not show which: a list is followed to its end in one form, where
/// the other form's null is no chunk.
#[derive(Clone, Copy)]
enum Links {
    /// XORed with their own place, since 2.32.
    Protected,
    /// As they are.
    Plain,
}

/// The forms of links, the latest first.
const LINKS: [Links; 2] = [Links::Protected, Links::Plain];

impl Links {
    /// Returns the link at `place`.
    fn next(self, memory: &impl Memory, place: u64) -> Option<u64> {
        let stored = memory.word(place)?;
        Some(match self {
            Links::Protected => stored ^ (place >> 12),
            Links::Plain => stored,
        })
    }
}

/// A list of free blocks in a thread cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cached {
    /// The length of each chunk.
    pub size: u64,
    /// The addresses of the blocks. They may lie in any arena.
    pub blocks: Vec<u64>,
}

impl Cached {
    /// Returns the bytes of the chunks.
    pub fn bytes(&self) -> u64 {
        self.size * self.blocks.len() as u64
    }
}

/// A form of `tcache_perthread_struct`.
struct Form {
    /// The length of its chunk.
    chunk: u64,
    /// The number of lists of one size each.
    lists: u64,
    /// The number of all lists.
    all_lists: u64,
    /// Bytes of a count.
    count: u64,
}

/// The forms of `tcache_perthread_struct`: 2.30 to 2.41, 2.26 to 2.29, and since 2.42, with free slots as counts.
const FORMS: [Form; 3] = [
    Form { chunk: 0x290, lists: 64, all_lists: 64, count: 2 },
    Form { chunk: 0x250, lists: 64, all_lists: 64, count: 1 },
    Form { chunk: 0x300, lists: 64, all_lists: 76, count: 2 },
];

/// Returns the chunk of the block at `address` and its size if that is the size of a thread cache.
pub fn cache_sized(memory: &impl Memory, address: u64) -> Option<(u64, u64)> {
    let chunk = address.checked_sub(HEADER).filter(|chunk| chunk.is_multiple_of(ALIGN))?;
    let size = memory.word(chunk + 8)? & !FLAGS;
    Cache::may_be(size).then_some((chunk, size))
}

/// A thread cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Its address, as the thread has it.
    pub address: u64,
    /// Lists with blocks.
    pub lists: Vec<Cached>,
}

/// The most blocks of a list of a thread cache.
const LONGEST_CACHED: usize = 1 << 16;

impl Cache {
    /// Returns whether a chunk of `size` may be a thread cache.
    pub fn may_be(size: u64) -> bool {
        FORMS.iter().any(|form| form.chunk == size)
    }

    /// Reads the chunk at `chunk` as a thread cache, which may be empty; `None` when it is none, or changes meanwhile.
    /// Every block in it takes one of `steps`.
    pub fn at(memory: &impl Memory, chunk: u64, size: u64, steps: &mut u64) -> Option<Cache> {
        LINKS.into_iter().find_map(|links| Cache::linked(memory, chunk, size, links, steps))
    }

    fn linked(memory: &impl Memory, chunk: u64, size: u64, links: Links, steps: &mut u64) -> Option<Cache> {
        let form = FORMS.iter().find(|form| form.chunk == size)?;
        let mut bytes = vec![0; (form.chunk - HEADER) as usize + 8];
        if !memory.read(chunk + HEADER, &mut bytes) {
            return None;
        }
        let entries = &bytes[(form.all_lists * form.count) as usize..];
        let entries: Vec<u64> = entries.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word)).collect();
        // A thread that is stopped may have changed a list and not yet its count.
        let (mut lists, mut differences) = (Vec::new(), 0);
        for list in 0..form.all_lists as usize {
            let count = match form.count {
                1 => u64::from(bytes[list]),
                _ => u64::from(u16::from_le_bytes([bytes[list * 2], bytes[list * 2 + 1]])),
            };
            let first = *entries.get(list)?;
            let mut length = 0;
            if first != 0 && list < form.lists as usize {
                let size = SHORTEST + list as u64 * ALIGN;
                let blocks = blocks(memory, first, size, links, steps)?;
                length = blocks.len() as u64;
                lists.push(Cached { size, blocks });
            }
            if form.all_lists == form.lists {
                differences += length.abs_diff(count);
            }
            if differences > 1 {
                return None;
            }
        }
        Some(Cache { address: chunk + HEADER, lists })
    }
}

/// Returns the blocks of a list, all of which are chunks of `size`.
fn blocks(memory: &impl Memory, first: u64, size: u64, links: Links, steps: &mut u64) -> Option<Vec<u64>> {
    let (mut block, mut blocks) = (first, Vec::new());
    while block != 0 {
        let chunk = block.checked_sub(HEADER)?;
        let is_one = block.is_multiple_of(ALIGN) && memory.word(chunk + 8)? & !FLAGS == size;
        if !is_one || blocks.len() > LONGEST_CACHED {
            return None;
        }
        blocks.push(block);
        *steps = steps.checked_sub(1)?;
        block = links.next(memory, block)?;
    }
    Some(blocks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Image;

    /// Two thread caches of chunks of 48 bytes in low memory, as static programs have it, one with each form of links.
    /// There a protected link looks like a plain one to another chunk.
    #[test]
    fn links_that_may_be_of_either_form_are_followed_to_their_ends() {
        const HEAP: u64 = 0x10_0000;
        for links in LINKS {
            let mut words = vec![0x31_u64; 4096];
            let blocks: Vec<u64> = (0..5).map(|number| HEAP + 0x1000 + number * 0x100).collect();
            for (number, block) in blocks.iter().enumerate() {
                let next = blocks.get(number + 1).copied().unwrap_or(0);
                let key = if matches!(links, Links::Protected) { block >> 12 } else { 0 };
                words[((block - HEAP) / 8) as usize] = next ^ key;
            }
            words[2..0x290 / 8].fill(0);
            // Counts of two bytes each, then the first blocks: the second list is of 48 bytes.
            words[2] = 5 << 16;
            words[2 + 16 + 1] = blocks[0];
            let mut image = Image::default();
            image.push(HEAP, words.iter().flat_map(|word| word.to_le_bytes()).collect());
            let cache = Cache::at(&image, HEAP, 0x290, &mut 1000).unwrap();
            assert_eq!(cache.lists, [Cached { size: 48, blocks }]);
        }
    }
}
