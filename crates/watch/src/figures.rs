//! A heap in figures, for other commands.

use std::ops::Range;

use serde::Serialize;

use super::location::HeapLocation;
use super::sample::{Clarity, Layout, Sample};
pub use super::slabs::Class;
use super::slabs::Slabs;
pub use super::unseen::Unseen;
use super::view::{Kind, Piece};

/// Bytes of a page.
const PAGE: usize = 4096;

/// What the heap of a process under `libheapwright.so` consists of. Figures that its kind of heap does not have are
/// `None`.
#[derive(Clone, Debug, Serialize)]
pub struct HeapFigures {
    /// The policy, or `cached`.
    pub policy: &'static str,
    /// Whether no operation was in progress while the heap was copied.
    pub sharp: bool,
    /// Bytes of the program's blocks.
    pub live: Option<u64>,
    /// Bytes in memory of these blocks, without those that have mappings of their own.
    pub resident_live: Option<u64>,
    /// Number of the program's blocks.
    pub blocks: Option<u64>,
    /// Bytes of addresses from its first block to behind its last.
    pub heap_size: Option<u64>,
    /// Bytes of these in memory.
    pub resident: u64,
    /// Bytes of free blocks in thread caches.
    pub cached: Option<u64>,
    /// Bytes of free blocks in slabs, without those in thread caches.
    pub free_in_slabs: Option<u64>,
    /// Bytes of pages of slabs in memory that contain no block.
    pub idle: Option<u64>,
    /// Number of holes.
    pub holes: u64,
    /// Bytes of holes.
    pub hole_bytes: u64,
    /// Bytes of the longest hole.
    pub largest_hole: u64,
    /// Bytes of holes in memory.
    pub resident_holes: u64,
    /// Bytes of these that are whole pages, which can be given back.
    pub whole_pages_of_holes: u64,
    /// Number of blocks with mappings of their own.
    pub mapped_blocks: Option<u64>,
    /// Bytes of these blocks.
    pub mapped_bytes: Option<u64>,
    /// The size classes that have slabs, shortest first.
    pub classes: Vec<Class>,
}

impl HeapFigures {
    /// Reads the heap of process `pid`. `in_memory` returns for each page of a range of its addresses whether it is.
    ///
    /// # Errors
    /// When it has no heap of this kind, or cannot be read.
    pub fn of(pid: u32, in_memory: impl Fn(Range<u64>) -> Vec<bool>) -> Result<HeapFigures, Unseen> {
        let sample = Sample::take(&HeapLocation::find(pid)?)?;
        let length = sample.layout.as_ref().map_or(0, Layout::heap_size);
        let present = Present(in_memory(sample.region..sample.region + length as u64));
        let resident = |is_one: fn(Kind) -> bool| -> u64 {
            let pieces = sample.pieces().filter(|piece| is_one(piece.kind));
            pieces.map(|piece| present.bytes(piece.offset..piece.offset + piece.size)).sum()
        };
        let holes = sample.pieces().filter(|piece| piece.kind == Kind::Hole);
        let slabs = sample.slabs.as_ref();
        let cached = slabs.map(Slabs::cached_bytes);
        let listed = slabs.map(|slabs| slabs.sum(|class| class.listed * class.size));
        let free = slabs.map(|slabs| slabs.sum(|class| class.free_bytes));
        let in_slabs = |read: fn(&Class) -> usize| slabs.map(|slabs| slabs.sum(read));
        let long_and_mapped = slabs.and_then(|slabs| Some(sample.long_blocks()? + slabs.mapped.blocks));
        let dissolved = slabs.map(|slabs| slabs.dissolved.blocks as u64);
        let blocks_of_slabs = in_slabs(|class| class.used).zip(long_and_mapped).zip(dissolved);
        // Slabs show blocks in thread caches as in use.
        let in_use = resident(|kind| matches!(kind, Kind::Used | Kind::Long)).saturating_sub(cached.unwrap_or(0));
        let live = sample.live();
        Ok(HeapFigures {
            policy: sample.policy,
            sharp: sample.clarity == Clarity::Sharp,
            live,
            resident_live: live.map(|live| in_use.min(live)),
            blocks: match blocks_of_slabs {
                Some(((used, long), dissolved)) => Some(used + long + dissolved),
                // The counters count holes among blocks.
                None => sample.counted().map(|counters| counters.blocks.saturating_sub(counters.holes)),
            },
            heap_size: sample.layout.as_ref().map(|layout| layout.heap_size() as u64),
            resident: present.bytes(0..length),
            cached,
            free_in_slabs: free.zip(listed).map(|(free, listed)| free.saturating_sub(listed)),
            idle: slabs.map(|slabs| slabs.idle_bytes()),
            holes: sample.holes.count as u64,
            hole_bytes: sample.holes.total as u64,
            largest_hole: sample.holes.max as u64,
            resident_holes: resident(|kind| kind == Kind::Hole),
            // Pages that a block has a part of stay.
            whole_pages_of_holes: holes.filter_map(whole_pages).map(|pages| present.bytes(pages)).sum(),
            mapped_blocks: slabs.map(|slabs| slabs.mapped.blocks),
            mapped_bytes: slabs.map(|slabs| slabs.mapped.bytes),
            classes: slabs.map_or_else(Vec::new, |slabs| slabs.classes().to_vec()),
        })
    }
}

/// Which pages of a heap are in memory.
struct Present(Vec<bool>);

impl Present {
    /// Returns how many bytes are in memory of a range of offsets in the heap.
    fn bytes(&self, range: Range<usize>) -> u64 {
        let pages = range.start / PAGE..range.end.div_ceil(PAGE).min(self.0.len());
        let in_page = |page: usize| ((page + 1) * PAGE).min(range.end).saturating_sub((page * PAGE).max(range.start));
        pages.filter(|page| self.0[*page]).map(|page| in_page(page) as u64).sum()
    }
}

/// Returns the pages that lie in `piece` as a whole.
fn whole_pages(piece: Piece) -> Option<Range<usize>> {
    let pages = piece.offset.next_multiple_of(PAGE)..(piece.offset + piece.size) / PAGE * PAGE;
    (!pages.is_empty()).then_some(pages)
}
