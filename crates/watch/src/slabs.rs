//! The slabs, the threads' heaps and the longest blocks of the cached heap, copied from the process that they belong
//! to.

use std::collections::BTreeMap;

use heapwright_beacon::Sighting;
use heapwright_cached::{HeapGlance, SlabGlance};
use heapwright_placement::{Block, BlockState};
use serde::Serialize;

use super::foreign::read_bytes;
use super::location::HeapLocation;
use super::unseen::Unseen;
use super::view::{Kind, Piece};

/// Number of slabs that are read, those of 64 GiB; slabs beyond it are shown as longer blocks.
const MOST_SLABS: usize = 1 << 20;

/// Upper bound of the heaps of a process.
const MOST_HEAPS: usize = 1 << 14;

/// Number of heaps in a group. The process makes room for a whole group at once: all of its heaps can be read, or none.
const TOGETHER: usize = 16;

/// The slabs of a heap, the blocks in thread caches, and those outside the heap, at one moment.
#[derive(Clone)]
pub struct Slabs {
    /// By slab number.
    slabs: Vec<Option<SlabGlance>>,
    heaps: Vec<HeapGlance>,
    classes: Vec<Class>,
    /// The slabs with blocks of several classes.
    pub dissolved: Dissolved,
    /// Blocks with mappings of their own.
    pub mapped: Mapped,
}

/// The blocks with mappings of their own, which lie outside the heap's pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mapped {
    /// Their number.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Mapped {
    /// Length in a process's memory, in bytes.
    const LENGTH: usize = 16;

    /// Copies their totals from the process of the heap at `location`.
    pub fn at(location: &HeapLocation) -> Result<Mapped, Unseen> {
        let bytes = read_bytes(location.pid, location.contents.mappings, Mapped::LENGTH)?;
        Mapped::of(&bytes).ok_or(Unseen::NotAHeap)
    }

    fn of(bytes: &[u8]) -> Option<Mapped> {
        let &[blocks, bytes] = bytes.as_chunks().0 else { return None };
        Some(Mapped { blocks: u64::from_ne_bytes(blocks), bytes: u64::from_ne_bytes(bytes) })
    }
}

/// The dissolved slabs: few of their blocks were left, and their holes serve all classes up to 8 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Dissolved {
    /// Number of slabs.
    pub slabs: usize,
    /// Number of blocks that are live or in thread caches.
    pub blocks: usize,
    /// Bytes of these blocks.
    pub block_bytes: usize,
    /// Bytes of pages that may be resident.
    pub resident_bytes: usize,
    /// Bytes of resident pages that no live or cached block overlaps.
    pub idle_bytes: usize,
}

impl Dissolved {
    fn of(slabs: &[Option<SlabGlance>]) -> Dissolved {
        let mut sum = Dissolved::default();
        for slab in slabs.iter().flatten().filter(|slab| slab.size.is_none()) {
            sum.slabs += 1;
            sum.blocks += slab.out;
            sum.block_bytes += slab.bytes_out;
            sum.resident_bytes += slab.resident() * SlabGlance::PAGE;
            sum.idle_bytes += slab.idle() * SlabGlance::PAGE;
        }
        sum
    }
}

/// The slabs of one size class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Class {
    /// Block size in bytes.
    pub size: usize,
    /// Number of slabs.
    pub slabs: usize,
    /// Number of blocks in them.
    pub blocks: usize,
    /// Live blocks.
    pub used: usize,
    /// Blocks in thread caches.
    pub listed: usize,
    /// Bytes of free blocks, including those in thread caches.
    pub free_bytes: usize,
    /// Bytes of pages that may be resident.
    pub resident_bytes: usize,
    /// Bytes of resident pages that no live or cached block overlaps.
    pub idle_bytes: usize,
}

impl Class {
    /// Returns the bytes of live blocks.
    pub fn bytes_used(&self) -> usize {
        self.used * self.size
    }
}

impl Slabs {
    /// Copies the slabs of the first `heap_size` bytes of the heap at `location`, and its threads' heaps.
    pub fn take(location: &HeapLocation, heap_size: usize) -> Result<Slabs, Unseen> {
        let Sighting { entries, slabs: known, .. } = location.contents;
        let count = heap_size.div_ceil(SlabGlance::LENGTH).min(MOST_SLABS);
        let entries = entries_of(&read_bytes(location.pid, entries, count * SlabGlance::ENTRY)?);
        let mut slabs = vec![None; count];
        let mut at = 0;
        while let Some(first) = (at..count).find(|&number| entries[number] != 0) {
            at = (first..count).find(|&number| entries[number] == 0).unwrap_or(count);
            // Of several slabs, the last lies lowest.
            let start = known.wrapping_sub(((at - 1) * SlabGlance::META) as u64);
            let bytes = read_bytes(location.pid, start, (at - first) * SlabGlance::META)?;
            let metadata = bytes.as_chunks().0.iter().rev();
            for ((slab, entry), known) in slabs[first..at].iter_mut().zip(&entries[first..at]).zip(metadata) {
                *slab = SlabGlance::of(*entry, known);
            }
        }
        Ok(Slabs::of(slabs, Slabs::heaps_at(location)?, Mapped::at(location)?))
    }

    fn of(slabs: Vec<Option<SlabGlance>>, heaps: Vec<HeapGlance>, mapped: Mapped) -> Slabs {
        let (classes, dissolved) = (classes_of(&slabs, &heaps), Dissolved::of(&slabs));
        Slabs { slabs, heaps, classes, dissolved, mapped }
    }

    /// Copies the threads' heaps.
    pub fn heaps_at(location: &HeapLocation) -> Result<Vec<HeapGlance>, Unseen> {
        let mut heaps = Vec::new();
        for group in (0..MOST_HEAPS).step_by(TOGETHER) {
            // The last of a group lies lowest.
            let start = location.contents.heaps.wrapping_sub(((group + TOGETHER) * HeapGlance::LENGTH) as u64);
            let bytes = match read_bytes(location.pid, start, TOGETHER * HeapGlance::LENGTH) {
                // There is no room for another group yet.
                Err(Unseen::NotAHeap) if !heaps.is_empty() => break,
                bytes => bytes?,
            };
            heaps.extend(bytes.as_chunks().0.iter().rev().map_while(HeapGlance::of));
            if heaps.len() < group + TOGETHER {
                break;
            }
        }
        Ok(heaps)
    }

    /// Returns whether the threads' heaps are unchanged: no thread has allocated or freed.
    pub fn has_heaps(&self, heaps: &[HeapGlance]) -> bool {
        self.heaps == heaps
    }

    /// Decodes what a process left of its slabs, longest blocks and heaps, after its metadata when it ended, for a heap
    /// of `heap_size` bytes.
    pub fn left(bytes: &[u8], heap_size: usize) -> Option<Slabs> {
        let count = heap_size.div_ceil(SlabGlance::LENGTH);
        let (entries, rest) = bytes.split_at_checked((count * SlabGlance::ENTRY).next_multiple_of(8))?;
        let (known, rest) = rest.split_at_checked(count * SlabGlance::META)?;
        let (mapped, heaps) = rest.split_at_checked(Mapped::LENGTH)?;
        let slabs = entries_of(entries).into_iter().zip(known.as_chunks().0.iter().rev());
        let slabs = slabs.map(|(entry, known)| SlabGlance::of(entry, known)).collect();
        let heaps = heaps.as_chunks().0.iter().rev().map_while(HeapGlance::of).collect();
        Some(Slabs::of(slabs, heaps, Mapped::of(mapped)?))
    }

    /// Returns the number of slabs.
    pub fn count(&self) -> usize {
        self.sum(|class| class.slabs) as usize + self.dissolved.slabs
    }

    /// Returns the number of threads that have, or had, a heap.
    pub fn heaps(&self) -> usize {
        self.heaps.len()
    }

    /// Returns the number of remote frees still in the freeing threads' buffers. These blocks count as in use.
    pub fn buffered_remote_frees(&self) -> usize {
        self.heaps.iter().map(|heap| heap.remote_buffered).sum()
    }

    /// Returns the number of freed long blocks that threads keep for their next requests.
    pub fn kept_blocks(&self) -> u64 {
        self.heaps.iter().map(|heap| heap.kept_blocks as u64).sum()
    }

    /// Returns the bytes of these.
    pub fn kept_bytes(&self) -> u64 {
        self.heaps.iter().map(|heap| heap.kept_bytes as u64).sum()
    }

    /// Returns the bytes of all free blocks in thread caches.
    pub fn cached_bytes(&self) -> u64 {
        self.kept_bytes() + self.sum(|class| class.listed * class.size)
    }

    /// Returns the size classes that have slabs, shortest first.
    pub fn classes(&self) -> &[Class] {
        &self.classes
    }

    /// Returns the bytes of the slabs' pages that may be resident.
    pub fn resident_bytes(&self) -> u64 {
        self.sum(|class| class.resident_bytes) + self.dissolved.resident_bytes as u64
    }

    /// Returns the bytes of the slabs' resident pages that no live or cached block overlaps.
    pub fn idle_bytes(&self) -> u64 {
        self.sum(|class| class.idle_bytes) + self.dissolved.idle_bytes as u64
    }

    /// Returns the sum of a figure over the size classes.
    pub fn sum(&self, read: impl Fn(&Class) -> usize) -> u64 {
        self.classes.iter().map(read).sum::<usize>() as u64
    }

    /// Splits a block of the engine into pieces: a slab into its pages, each with its used and free bytes.
    pub fn pieces(&self, block: Block) -> impl Iterator<Item = Piece> {
        let number = block.offset / SlabGlance::LENGTH;
        let could_be = block.state == BlockState::Used && block.size == SlabGlance::LENGTH;
        let slab = self.slabs.get(number).copied().flatten().filter(|_| could_be);
        let whole = match block.state {
            BlockState::Used => Piece { kind: Kind::Long, ..Piece::from(block) },
            BlockState::Free => Piece::from(block),
        };
        let pages =
            slab.into_iter().flat_map(|slab| slab.bytes_out_by_page().enumerate()).flat_map(move |(page, used)| {
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
        let Some(size) = slab.size else { continue };
        let class = classes.entry(size).or_insert(Class { size, ..Class::default() });
        class.slabs += 1;
        class.blocks += SlabGlance::LENGTH / size;
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
