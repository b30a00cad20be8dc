//! The slabs and the threads' heaps of the cached heap, copied from the process they belong to.

use std::collections::BTreeMap;

use heapwright_beacon::Sighting;
use heapwright_cached::{HeapGlance, SlabGlance};
use heapwright_placement::{Block, BlockState};
use serde::Serialize;

use super::sample::read_bytes;
use super::sight::{Sight, Unseen};
use super::view::{Kind, Piece};

/// Slabs behind so many are taken for longer blocks: those of 64 GiB.
const MOST_SLABS: usize = 1 << 20;

/// A process has fewer heaps than this; so many are read at once.
const MOST_HEAPS: usize = 1 << 14;
const TOGETHER: usize = 16;

/// The slabs of a heap and what lies in threads' lists, at one moment.
#[derive(Clone)]
pub struct Slabs {
    /// By their numbers.
    slabs: Vec<Option<SlabGlance>>,
    heaps: Vec<HeapGlance>,
    classes: Vec<Class>,
}

/// The slabs of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Class {
    /// How long their blocks are, in bytes.
    pub size: usize,
    /// How many slabs.
    pub slabs: usize,
    /// How many blocks they have.
    pub blocks: usize,
    /// Blocks that the program has.
    pub used: usize,
    /// Blocks that wait in threads' lists.
    pub listed: usize,
    /// Bytes of blocks that are free, those in lists among them.
    pub free_bytes: usize,
    /// Bytes of pages that may be in memory.
    pub resident_bytes: usize,
    /// Bytes of those that are there for nothing: no block in use, or in a list, overlaps them.
    pub idle_bytes: usize,
}

impl Slabs {
    /// Copies the slabs of the first `heap_size` bytes of the heap at `sight`, and its heaps.
    pub fn take(sight: &Sight, heap_size: usize) -> Result<Slabs, Unseen> {
        let Sighting { entries, slabs: known, .. } = sight.told;
        let count = heap_size.div_ceil(SlabGlance::LENGTH).min(MOST_SLABS);
        let entries = entries_of(&read_bytes(sight.pid, entries, count * SlabGlance::ENTRY)?);
        let mut slabs = vec![None; count];
        let mut at = 0;
        while let Some(first) = (at..count).find(|&number| entries[number] != 0) {
            at = (first..count).find(|&number| entries[number] == 0).unwrap_or(count);
            let start = known + (first * SlabGlance::KNOWN) as u64;
            let bytes = read_bytes(sight.pid, start, (at - first) * SlabGlance::KNOWN)?;
            for ((slab, entry), known) in slabs[first..at].iter_mut().zip(&entries[first..at]).zip(bytes.as_chunks().0)
            {
                *slab = SlabGlance::of(*entry, known);
            }
        }
        Ok(Slabs::of(slabs, Slabs::heaps_at(sight)?))
    }

    fn of(slabs: Vec<Option<SlabGlance>>, heaps: Vec<HeapGlance>) -> Slabs {
        let classes = classes_of(&slabs, &heaps);
        Slabs { slabs, heaps, classes }
    }

    /// Copies the threads' heaps.
    pub fn heaps_at(sight: &Sight) -> Result<Vec<HeapGlance>, Unseen> {
        let mut heaps = Vec::new();
        for first in (1..MOST_HEAPS).step_by(TOGETHER) {
            let count = TOGETHER.min(MOST_HEAPS - first);
            let start = sight.told.heaps + (first * HeapGlance::LENGTH) as u64;
            let bytes = read_bytes(sight.pid, start, count * HeapGlance::LENGTH)?;
            heaps.extend(bytes.as_chunks().0.iter().map_while(HeapGlance::of));
            if heaps.len() + 1 < first + count {
                break;
            }
        }
        Ok(heaps)
    }

    /// Whether the heaps are as they were: nobody has allocated or freed.
    pub fn has_heaps(&self, heaps: &[HeapGlance]) -> bool {
        self.heaps == heaps
    }

    /// The slabs and heaps that a process left behind its metadata when it ended, for a heap of so many bytes.
    pub fn left(bytes: &[u8], heap_size: usize) -> Option<Slabs> {
        let count = heap_size.div_ceil(SlabGlance::LENGTH);
        let (entries, rest) = bytes.split_at_checked((count * SlabGlance::ENTRY).next_multiple_of(8))?;
        let (known, heaps) = rest.split_at_checked(count * SlabGlance::KNOWN)?;
        let slabs = entries_of(entries).into_iter().zip(known.as_chunks().0);
        let slabs = slabs.map(|(entry, known)| SlabGlance::of(entry, known)).collect();
        Some(Slabs::of(slabs, heaps.as_chunks().0.iter().map_while(HeapGlance::of).collect()))
    }

    /// How many slabs.
    pub fn count(&self) -> usize {
        self.sum(|class| class.slabs) as usize
    }

    /// How many threads have, or had, a heap.
    pub fn heaps(&self) -> usize {
        self.heaps.len()
    }

    /// Blocks that threads have freed and not sent to the heaps that they belong to yet. They are among those in use.
    pub fn outgoing(&self) -> usize {
        self.heaps.iter().map(|heap| heap.outgoing).sum()
    }

    /// The sizes of which there are slabs, the shortest first.
    pub fn classes(&self) -> &[Class] {
        &self.classes
    }

    /// The sum of a figure over the sizes.
    pub fn sum(&self, read: impl Fn(&Class) -> usize) -> u64 {
        self.classes.iter().map(read).sum::<usize>() as u64
    }

    /// What a block of the engine consists of: a slab of its pages, each with what is in use and what is free.
    pub fn pieces(&self, block: Block) -> impl Iterator<Item = Piece> {
        let number = block.offset / SlabGlance::LENGTH;
        let could_be = block.state == BlockState::Used && block.size == SlabGlance::LENGTH;
        let slab = self.slabs.get(number).copied().flatten().filter(|_| could_be);
        let whole = match block.state {
            BlockState::Used => Piece { kind: Kind::Long, ..Piece::from(block) },
            BlockState::Free => Piece::from(block),
        };
        let pages = slab.into_iter().flat_map(|slab| slab.bytes_out().enumerate()).flat_map(move |(page, used)| {
            let offset = block.offset + page * SlabGlance::PAGE;
            [
                Piece { offset, size: used, kind: Kind::Used },
                Piece { offset: offset + used, size: SlabGlance::PAGE - used, kind: Kind::Idle },
            ]
        });
        pages.chain(slab.is_none().then_some(whole))
    }
}

fn classes_of(slabs: &[Option<SlabGlance>], heaps: &[HeapGlance]) -> Vec<Class> {
    let mut classes = BTreeMap::<usize, Class>::new();
    for slab in slabs.iter().flatten() {
        let class = classes.entry(slab.size).or_insert(Class { size: slab.size, ..Class::default() });
        class.slabs += 1;
        class.blocks += slab.blocks();
        class.used += slab.out;
        class.resident_bytes += slab.resident() * SlabGlance::PAGE;
        class.idle_bytes += slab.idle() * SlabGlance::PAGE;
    }
    for (size, listed) in heaps.iter().flat_map(HeapGlance::lists) {
        if let Some(class) = classes.get_mut(&size) {
            let listed = listed.min(class.used);
            class.listed += listed;
            class.used -= listed;
        }
    }
    classes.values().map(|class| Class { free_bytes: (class.blocks - class.used) * class.size, ..*class }).collect()
}

fn entries_of(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks().0.iter().map(|&entry| u32::from_ne_bytes(entry)).collect()
}
