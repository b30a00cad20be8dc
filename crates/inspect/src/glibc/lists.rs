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
        let mut chunk = memory.word(bins + bin * 8).unwrap_or(0);
        while chunk != 0 {
            let is_inside = arena.segments.iter().any(|segment| segment.range.contains(&chunk));
            if !chunk.is_multiple_of(ALIGN) || !is_inside || found.len() > LONGEST_LIST || !found.insert(chunk) {
                damaged += 1;
                break;
            }
            let Some(next) = next(memory, chunk + HEADER, 0) else { break };
            chunk = next;
        }
    }
    (found, damaged)
}

/// Follows a link at `place`, as it is or, since 2.32, XORed with its own place. It points `ahead` of a chunk's start.
fn next(memory: &impl Memory, place: u64, ahead: u64) -> Option<u64> {
    let stored = memory.word(place)?;
    let decoded = stored ^ (place >> 12);
    // An encoded null is short; so is no address of a chunk.
    let is_plain =
        stored == 0 || (stored.is_multiple_of(ALIGN) && decoded != 0 && is_chunk(memory, stored.wrapping_sub(ahead)));
    Some(if is_plain { stored } else { decoded })
}

fn is_chunk(memory: &impl Memory, chunk: u64) -> bool {
    let size = chunk.checked_add(8).and_then(|at| memory.word(at)).unwrap_or(0) & !FLAGS;
    size >= SHORTEST && size.is_multiple_of(ALIGN) && size < 1 << 24
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

    /// Reads the chunk at `chunk` as a thread cache; `None` when it is none, or is empty. Every block
    /// in it takes one of `steps`.
    pub fn at(memory: &impl Memory, chunk: u64, size: u64, steps: &mut u64) -> Option<Cache> {
        let form = FORMS.iter().find(|form| form.chunk == size)?;
        let mut bytes = vec![0; (form.chunk - HEADER) as usize + 8];
        if !memory.read(chunk + HEADER, &mut bytes) {
            return None;
        }
        let entries = &bytes[(form.all_lists * form.count) as usize..];
        let entries: Vec<u64> = entries.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word)).collect();
        let mut lists = Vec::new();
        for list in 0..form.all_lists as usize {
            let count = match form.count {
                1 => u64::from(bytes[list]),
                _ => u64::from(u16::from_le_bytes([bytes[list * 2], bytes[list * 2 + 1]])),
            };
            let first = *entries.get(list)?;
            if form.all_lists == form.lists && (count == 0) != (first == 0) {
                return None;
            }
            if first != 0 && list < form.lists as usize {
                let size = SHORTEST + list as u64 * ALIGN;
                let blocks = blocks(memory, first, size, steps)?;
                if form.all_lists == form.lists && blocks.len() as u64 != count {
                    return None;
                }
                lists.push(Cached { size, blocks });
            }
        }
        (!lists.is_empty()).then_some(Cache { address: chunk + HEADER, lists })
    }
}

/// Returns the blocks of a list, all of which are chunks of `size`.
fn blocks(memory: &impl Memory, first: u64, size: u64, steps: &mut u64) -> Option<Vec<u64>> {
    let (mut block, mut blocks) = (first, Vec::new());
    while block != 0 {
        let chunk = block.checked_sub(HEADER)?;
        let is_one = block.is_multiple_of(ALIGN) && memory.word(chunk + 8)? & !FLAGS == size;
        if !is_one || blocks.len() > LONGEST_CACHED {
            return None;
        }
        blocks.push(block);
        *steps = steps.checked_sub(1)?;
        block = next(memory, block, HEADER)?;
    }
    Some(blocks)
}
