//! The chunks of an arena, one behind the other.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use serde::Serialize;

use super::{ALIGN, Arena, Cache, FLAGS, HEADER, PREVIOUS_IN_USE, SHORTEST, Segment};
use crate::memory::{Memory, PAGE, PageState, Words};

/// The most blocks that are listed one by one.
const LARGEST: usize = 10;

/// Chunks that must follow each other for a place to count as the start of one, where the walk lost its way.
const CONVINCING: usize = 8;

/// Longer blocks are counted by powers of two.
const LONGEST_EXACT: u64 = 1024;

/// Blocks that are followed in lists of thread caches, which damaged memory could make without end.
const LIST_STEPS: u64 = 1 << 20;

/// Cells of an arena's map.
const MAP_CELLS: u64 = 1024;

/// Blocks from this length on have mappings of their own, unless the threshold was changed or has grown.
const LONG_HOLE: u64 = 128 << 10;

/// What a trim leaves of a free chunk: its header and links.
const KEPT_BY_TRIM: u64 = 48;

/// A block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Block {
    /// The address that the program has.
    pub address: u64,
    /// The length of its chunk.
    pub bytes: u64,
}

/// Blocks of one size, or up to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SizeClass {
    /// The number of blocks.
    pub blocks: u64,
    /// The bytes of their chunks.
    pub bytes: u64,
}

impl SizeClass {
    /// Counts a block.
    pub fn add(&mut self, bytes: u64) {
        self.blocks += 1;
        self.bytes += bytes;
    }
}

/// Whether each block is listed, or only counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// Blocks are counted.
    Counted,
    /// Each is listed, in 16 bytes.
    Listed,
}

/// A part of an arena in its map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MapCell {
    /// Bytes of chunks in use.
    pub used: u64,
    /// Bytes in memory.
    pub resident: u64,
}

/// The map of an arena: its heaps, one behind the other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ArenaMap {
    /// Bytes that each cell stands for.
    pub cell_bytes: u64,
    /// The cells in address order; a new heap begins a new cell.
    pub cells: Vec<MapCell>,
}

/// What the chunks of an arena are.
#[derive(Default)]
pub struct Walked {
    /// Chunks in use, thread caches' among them.
    pub used: SizeClass,
    /// Free chunks in bins, without the fast bins and the top.
    pub free: SizeClass,
    /// Chunks in fast bins.
    pub fast: SizeClass,
    /// Bytes of the top chunk.
    pub top: u64,
    /// Bytes of the segments.
    pub bytes: u64,
    /// Bytes in memory.
    pub resident: u64,
    /// Bytes in swap.
    pub swapped: u64,
    /// Bytes in memory of free chunks, fast bins and the top.
    pub resident_free: u64,
    /// Bytes in memory that `malloc_trim(0)` gives back.
    pub trim: u64,
    /// Bytes in memory of the top.
    pub resident_top: u64,
    /// Bytes in memory of holes as long as blocks that have mappings of their own by default.
    pub resident_long_holes: u64,
    /// The map.
    pub map: ArenaMap,
    /// All chunks in use, when they are listed.
    pub listed: Vec<Block>,
    /// Chunks in use by their size; from 1 KiB on by powers of two.
    pub sizes: BTreeMap<u64, SizeClass>,
    /// Runs of free chunks by powers of two.
    pub holes: BTreeMap<u64, SizeClass>,
    /// The longest chunks in use, longest first.
    pub largest: Vec<Block>,
    /// The last chunk in use in front of the top.
    pub pin: Option<Block>,
    /// Free bytes between this chunk and the one in use in front of it.
    pub before_pin: u64,
    /// Thread caches with blocks that lie in this arena.
    pub caches: Vec<Cache>,
    /// Blocks that may still be followed in lists of thread caches.
    list_steps: u64,
    /// Places that contradict themselves.
    pub inconsistencies: u64,
    /// Bytes of which nothing is known.
    pub unknown: u64,
    /// Bytes of which nothing is known because the headers of their chunks are in swap.
    pub unread: u64,
    /// Bytes of which nothing is known because the program has no access to the headers of their chunks.
    pub closed: u64,
    /// Bytes between chunks that the program has from the system itself, by `sbrk`.
    pub foreign: u64,
}

/// Walks the chunks of `arena`. `fast` are those in its fast bins.
pub fn walk(memory: &impl Memory, arena: &Arena, fast: &HashSet<u64>, listing: Listing) -> Walked {
    let mut walked = Walked { list_steps: LIST_STEPS, ..Walked::default() };
    let bytes: u64 = arena.segments.iter().map(|segment| segment.range.end - segment.range.start).sum();
    walked.bytes = bytes;
    walked.map.cell_bytes = (bytes / MAP_CELLS).next_multiple_of(PAGE).max(PAGE);
    for segment in &arena.segments {
        let states = states(memory, &segment.range);
        let is_in = |state| states.iter().filter(|one| **one == state).count() as u64 * PAGE;
        walked.resident += is_in(PageState::Present);
        walked.swapped += is_in(PageState::Swapped);
        let first_cell = walked.map.add(&segment.range, &states);
        let pages = Pages { start: segment.range.start / PAGE * PAGE, states };
        Walker {
            memory,
            words: Words::new(memory, segment.range.end - segment.range.start),
            segment,
            fast,
            arena,
            listing,
            first_cell,
            pages,
            run: None,
            out: &mut walked,
        }
        .walk();
    }
    walked
}

impl ArenaMap {
    /// Adds the cells of a heap whose pages have `states`; returns the first one.
    fn add(&mut self, range: &Range<u64>, states: &[PageState]) -> usize {
        let first = self.cells.len();
        for pages in states.chunks((self.cell_bytes / PAGE) as usize) {
            let resident = pages.iter().filter(|state| **state == PageState::Present).count() as u64 * PAGE;
            self.cells.push(MapCell { used: 0, resident });
        }
        debug_assert!(range.is_empty() || self.cells.len() > first);
        first
    }

    /// Adds a chunk in use that lies `from..to` bytes behind the first page of a heap.
    fn add_used(&mut self, first_cell: usize, from: u64, to: u64) {
        let mut at = from;
        while at < to {
            let cell = at / self.cell_bytes;
            let end = to.min((cell + 1) * self.cell_bytes);
            if let Some(cell) = self.cells.get_mut(first_cell + cell as usize) {
                cell.used += end - at;
            }
            at = end;
        }
    }
}

fn states(memory: &impl Memory, range: &Range<u64>) -> Vec<PageState> {
    let start = range.start / PAGE * PAGE;
    memory.pages(start, range.end.saturating_sub(start).div_ceil(PAGE) as usize)
}

/// Where the pages of a segment are.
struct Pages {
    start: u64,
    states: Vec<PageState>,
}

impl Pages {
    /// Returns how many bytes of `range` are in memory.
    fn resident(&self, range: &Range<u64>) -> u64 {
        if range.start >= range.end || range.start < self.start {
            return 0;
        }
        let (first, last) = ((range.start - self.start) / PAGE, (range.end - 1 - self.start) / PAGE);
        let in_page = |page: u64| {
            let start = self.start + page * PAGE;
            (start + PAGE).min(range.end) - start.max(range.start)
        };
        let states = self.states.iter().enumerate().take(last as usize + 1).skip(first as usize);
        states.filter(|(_, state)| **state == PageState::Present).map(|(page, _)| in_page(page as u64)).sum()
    }

    /// Returns where the pages in swap end that begin with the one that contains `address`.
    fn end_of_swap(&self, address: u64) -> Option<u64> {
        let first = (address.checked_sub(self.start)? / PAGE) as usize;
        let swapped = self.states.get(first..)?.iter().take_while(|state| **state == PageState::Swapped).count();
        (swapped > 0).then(|| self.start + (first + swapped) as u64 * PAGE)
    }
}

/// Pages that are not read, by where they end.
enum Gap {
    /// They are in swap.
    InSwap(u64),
    /// The program has no access to them.
    Closed(u64),
}

impl Gap {
    fn end(&self) -> u64 {
        match self {
            Gap::InSwap(end) | Gap::Closed(end) => *end,
        }
    }
}

struct Walker<'a, 'm, M> {
    memory: &'m M,
    words: Words<'m, M>,
    segment: &'a Segment,
    fast: &'a HashSet<u64>,
    arena: &'a Arena,
    listing: Listing,
    /// Where the segment begins in the map.
    first_cell: usize,
    pages: Pages,
    /// Free chunks that follow each other, up to here.
    run: Option<Range<u64>>,
    out: &'a mut Walked,
}

impl<M: Memory> Walker<'_, '_, M> {
    fn walk(mut self) {
        let Range { start, end } = self.segment.range;
        let stop = self.segment.top.unwrap_or(end);
        let mut at = start;
        while at < stop {
            let Some(next) = self.chunk(at, stop) else {
                if self.is_fence(at) {
                    break;
                }
                if self.is_fence_post(at) {
                    let found = self.resume(at + 2 * HEADER, stop);
                    self.end_run();
                    self.out.foreign += found - at;
                    at = found;
                    continue;
                }
                let gap = self.gap(at);
                let found = self.resume(gap.as_ref().map_or(at + ALIGN, Gap::end), stop);
                self.end_run();
                match gap {
                    Some(Gap::InSwap(_)) => self.out.unread += found - at,
                    Some(Gap::Closed(_)) => self.out.closed += found - at,
                    None => {
                        self.out.inconsistencies += 1;
                        self.out.unknown += found - at;
                    }
                }
                at = found;
                continue;
            };
            at = next;
        }
        if let Some(top) = self.segment.top {
            self.take_top(top..end);
        }
        self.end_run();
    }

    /// Counts the chunk at `at` and returns where the next one is.
    fn chunk(&mut self, at: u64, stop: u64) -> Option<u64> {
        let size = self.size(at, stop)?;
        let next = at + size;
        let is_used = next >= self.segment.range.end || self.words.at(next + 8)? & PREVIOUS_IN_USE != 0;
        if !is_used || self.fast.contains(&at) {
            let class = if is_used { &mut self.out.fast } else { &mut self.out.free };
            class.add(size);
            self.out.resident_free += self.pages.resident(&(at..next));
            self.extend_run(at..next);
        } else {
            let free_before = self.end_run();
            self.count_used(at, size, free_before);
        }
        Some(next)
    }

    /// Returns the size of the chunk at `at` when it is possible.
    fn size(&mut self, at: u64, stop: u64) -> Option<u64> {
        let size = self.words.at(at.checked_add(8)?)? & !FLAGS;
        (size >= SHORTEST && size.is_multiple_of(ALIGN) && size <= stop.checked_sub(at)?).then_some(size)
    }

    /// Returns the pages that are not read and have the header of the chunk at `at`, or of the one behind it.
    fn gap(&mut self, at: u64) -> Option<Gap> {
        let header = match self.words.at(at + 8) {
            None => at + 8,
            Some(size) => at.checked_add(size & !FLAGS)?.checked_add(8)?,
        };
        let closed = self.segment.closed.iter().find(|part| part.contains(&header));
        closed.map(|part| Gap::Closed(part.end)).or_else(|| self.pages.end_of_swap(header).map(Gap::InSwap))
    }

    /// Whether the end of a heap that is full is at `at`: a header of length 0, often behind a header without a block;
    /// or two headers without blocks, at the end of a piece of a main arena.
    fn is_fence(&mut self, at: u64) -> bool {
        let mut length = |at: u64| self.words.at(at + 8).map(|size| size & !FLAGS);
        let end = self.segment.range.end;
        let is_last = length(at) == Some(0) && at + HEADER == end;
        let are_last = length(at) == Some(HEADER) && (length(at + HEADER) == Some(0) || at + 2 * HEADER == end);
        self.segment.top.is_none() && (is_last || are_last)
    }

    /// Whether a piece of the main arena ends at `at`: two headers without blocks. The program moved the break itself.
    fn is_fence_post(&mut self, at: u64) -> bool {
        let mut length = |at: u64| self.words.at(at + 8).map(|size| size & !FLAGS);
        self.arena.is_main && length(at) == Some(HEADER) && length(at + HEADER) == Some(HEADER)
    }

    /// Returns the next place that a few chunks follow, or `stop`.
    fn resume(&mut self, from: u64, stop: u64) -> u64 {
        let mut at = from;
        while at < stop {
            if self.is_convincing(at, stop) {
                return at;
            }
            at += ALIGN;
        }
        stop
    }

    fn is_convincing(&mut self, mut at: u64, stop: u64) -> bool {
        for _ in 0..CONVINCING {
            match self.size(at, stop) {
                Some(size) => at += size,
                None => return false,
            }
            if at == stop {
                break;
            }
        }
        true
    }

    fn count_used(&mut self, at: u64, size: u64, free_before: u64) {
        let block = Block { address: at + HEADER, bytes: size };
        self.out.used.add(size);
        self.out.map.add_used(self.first_cell, at - self.pages.start, at + size - self.pages.start);
        if self.listing == Listing::Listed {
            self.out.listed.push(block);
        }
        let class = if size <= LONGEST_EXACT { size } else { size.next_power_of_two() };
        self.out.sizes.entry(class).or_default().add(size);
        if self.segment.top.is_some() {
            self.out.pin = Some(block);
            self.out.before_pin = free_before;
        }
        let shortest = self.out.largest.last().map_or(0, |block| block.bytes);
        if self.out.largest.len() < LARGEST || size > shortest {
            let behind = self.out.largest.partition_point(|other| other.bytes >= size);
            self.out.largest.insert(behind, block);
            self.out.largest.truncate(LARGEST);
        }
        if Cache::may_be(size) {
            let cache = Cache::at(self.memory, at, size, &mut self.out.list_steps);
            self.out.caches.extend(cache.filter(|cache| !cache.lists.is_empty()));
        }
    }

    fn extend_run(&mut self, chunk: Range<u64>) {
        match &mut self.run {
            Some(run) => run.end = chunk.end,
            None => self.run = Some(chunk),
        }
    }

    /// Counts the hole that ends here, and what a trim would give back of it. Returns its length.
    fn end_run(&mut self) -> u64 {
        let Some(run) = self.run.take() else { return 0 };
        let length = run.end - run.start;
        self.out.holes.entry(length.next_power_of_two()).or_default().add(length);
        if length >= LONG_HOLE {
            self.out.resident_long_holes += self.pages.resident(&run);
        }
        let first = (run.start + KEPT_BY_TRIM + PAGE - 1) & !(PAGE - 1);
        self.out.trim += self.pages.resident(&(first..run.end & !(PAGE - 1)));
        length
    }

    fn take_top(&mut self, top: Range<u64>) {
        let length = top.end - top.start;
        self.out.top += length;
        self.out.resident_top += self.pages.resident(&top);
        self.out.resident_free += self.pages.resident(&top);
        // Chunks of fast bins in front of the top become a part of it.
        let start = self.run.take().map_or(top.start, |run| run.start);
        if self.arena.is_trimmed && top.end - start > SHORTEST + 1 {
            let given = (top.end - start - SHORTEST - 1) & !(PAGE - 1);
            self.out.trim += self.pages.resident(&(top.end - given..top.end));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Image;

    /// Walks a heap without a top that consists of chunks with these sizes and flags.
    fn walk_heap(sizes: &[u64]) -> Walked {
        let (mut words, mut at) = (vec![0_u64; 512], 0);
        for size in sizes {
            words[at / 8 + 1] = *size;
            at += ((size & !FLAGS) as usize).max(16);
        }
        let mut image = Image::default();
        image.push(0x10000, words.iter().flat_map(|word| word.to_le_bytes()).collect());
        let segment = Segment { range: 0x10000..0x10000 + at as u64, ..Segment::default() };
        let arena = Arena { segments: vec![segment], ..Arena::default() };
        walk(&image, &arena, &HashSet::new(), Listing::Counted)
    }

    /// Memory whose pages in a range are in swap.
    struct Swapping(Image, Range<u64>);

    impl Memory for Swapping {
        fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
            let is_apart = address >= self.1.end || address + bytes.len() as u64 <= self.1.start;
            is_apart && self.0.read(address, bytes)
        }

        fn pages(&self, address: u64, count: usize) -> Vec<PageState> {
            let pages = (address / PAGE * PAGE..).step_by(PAGE as usize).zip(self.0.pages(address, count));
            pages.map(|(at, state)| if self.1.contains(&at) { PageState::Swapped } else { state }).collect()
        }
    }

    #[test]
    fn what_is_in_swap_is_no_contradiction() {
        const START: u64 = 0x10000;
        const CHUNK: u64 = 48;
        for swapped in [0..1, 0..2, 1..2, 1..3, 2..4, 0..4] {
            let words: Vec<u64> = (0..16384 / 8).map(|word| if word % 6 == 1 { CHUNK | 1 } else { 0 }).collect();
            let mut image = Image::default();
            image.push(START, words.iter().flat_map(|word| word.to_le_bytes()).collect());
            let memory = Swapping(image, START + swapped.start * PAGE..START + swapped.end * PAGE);
            let range = START..START + 16384 / CHUNK * CHUNK;
            let segment = Segment { range: range.clone(), ..Segment::default() };
            let arena = Arena { segments: vec![segment], ..Arena::default() };
            let walked = walk(&memory, &arena, &HashSet::new(), Listing::Counted);
            let pages = swapped.end - swapped.start;
            assert_eq!((walked.inconsistencies, walked.unknown, walked.swapped), (0, 0, pages * PAGE), "{swapped:?}");
            assert_eq!(walked.used.bytes + walked.unread, range.end - range.start, "{swapped:?}");
            assert!(walked.unread.abs_diff(pages * PAGE) <= 2 * CHUNK, "{swapped:?} {}", walked.unread);
        }
    }

    #[test]
    fn the_ends_of_full_heaps_are_no_contradictions() {
        // What is left behind the last block becomes a free chunk, a header without a block, or a chunk of 32 bytes.
        for end in [&[96 | 5, 16, 1][..], &[16 | 1, 1], &[32 | 1, 1]] {
            let walked = walk_heap(&[&[64 | 5, 128 | 5], end].concat());
            assert_eq!((walked.inconsistencies, walked.unknown), (0, 0), "{end:?}");
        }
        assert_eq!(walk_heap(&[64 | 5, 8, 64 | 5]).inconsistencies, 1);
    }
}
