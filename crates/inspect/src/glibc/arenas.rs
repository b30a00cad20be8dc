//! Where the arenas are.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

use serde::Serialize;

use super::arena::{ADDRESSES, Arena, Segment, TOP, top};
use super::{ALIGN, HEADER, align_up, main_arena};
use crate::mappings::{Mapping, mapping_of, neighbours};
use crate::memory::Memory;

/// Pairs of links of an arena: its bins.
const BINS: usize = 127;

/// Bins that must be empty for an arena to be looked for. Nearly all bins of a large heap may have chunks.
const EMPTY_BINS: usize = 2;

/// Bins that may contradict themselves in the middle of a change.
const TORN_BINS: usize = 2;

/// From the bins of an arena to fields behind them, in every version since 2.26.
const NEXT: u64 = 2048;
const SYSTEM_BYTES: u64 = 2072;
const END: u64 = 2088;

/// From the bins back to the fast bins.
const FAST: u64 = 96;

/// From the start of an arena to its bins: since 2.27, 2.26, and without fast bins.
const BINS_AT: [u64; 4] = [112, 104, 24, 16];

/// The shortest offset of an arena that has fast bins.
const WITH_FAST: u64 = 104;

/// Bounds of what damaged memory may claim.
const MOST_ARENAS: usize = 1 << 16;
const MOST_HEAPS: usize = 1 << 16;
const LONGEST_DATA: u64 = 64 << 20;

/// Bytes of data that are searched at a time.
const PART: u64 = 256 << 10;

/// The alignment of heaps of arenas that are not the main one: by default, and with huge pages of 2 MiB and 1 GiB.
const HEAP_ALIGN: [u64; 3] = [64 << 20, 8 << 20, 4 << 30];

/// The length of `heap_info`, at the start of a heap: before 2.35, and since.
const HEAP_INFO: [u64; 2] = [48, 32];

/// From `mp_` to the start of the program break: since 2.35, in the latest versions (seen in 2.43), and before 2.35.
const BREAK_AT: [u64; 3] = [96, 104, 72];

/// Fields of `mp_`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Parameters {
    /// The top is trimmed by a free that makes it longer.
    pub trim_threshold: u64,
    /// Longer blocks get mappings of their own.
    pub mmap_threshold: u64,
    /// Limit on arenas, 0 without.
    pub arena_max: u64,
    /// Blocks with mappings of their own.
    pub mmapped_blocks: u64,
    /// Bytes of these mappings.
    pub mmapped_bytes: u64,
    /// Start of the program break.
    #[serde(skip)]
    pub heap_start: u64,
}

/// All arenas of a process.
#[derive(Debug)]
pub struct Arenas {
    /// The arenas, those of the largest heap first, and the main one of each heap in front of its others.
    pub arenas: Vec<Arena>,
    /// `mp_`, where it was found; of several, thresholds of the first, and blocks of all.
    pub parameters: Option<Parameters>,
    /// The data of the files that have both.
    data: Vec<Range<u64>>,
}

impl Arenas {
    /// Returns the bytes that it has from the system.
    fn system_bytes(&self) -> u64 {
        let in_arenas = self.arenas.iter().map(|arena| arena.system_bytes);
        in_arenas.chain(self.parameters.map(|parameters| parameters.mmapped_bytes)).fold(0, u64::saturating_add)
    }

    /// Whether it has anything: under another malloc, a call of `mallinfo` makes an empty heap.
    fn is_used(&self) -> bool {
        let has_blocks = self.parameters.is_some_and(|parameters| parameters.mmapped_blocks > 0);
        has_blocks || self.arenas.iter().any(|arena| arena.system_bytes > 0 || !arena.segments.is_empty())
    }

    /// Adds the arenas of another heap.
    fn add(mut self, mut other: Arenas) -> Arenas {
        let heap = self.arenas.last().map_or(0, |arena| arena.heap + 1);
        other.arenas.iter_mut().for_each(|arena| arena.heap = heap);
        self.arenas.append(&mut other.arenas);
        self.data.append(&mut other.data);
        self.parameters = match (self.parameters, other.parameters) {
            (Some(one), Some(other)) => Some(Parameters {
                mmapped_blocks: one.mmapped_blocks.saturating_add(other.mmapped_blocks),
                mmapped_bytes: one.mmapped_bytes.saturating_add(other.mmapped_bytes),
                ..one
            }),
            (one, other) => one.or(other),
        };
        self
    }
}

/// Returns the memory that [`find`] and walks of the arenas read.
pub fn ranges(memory: &impl Memory, mappings: &[Mapping]) -> Vec<Range<u64>> {
    let Some(found) = find(memory, mappings) else { return Vec::new() };
    let mut ranges = found.data;
    for arena in found.arenas {
        ranges.push(arena.address..arena.address.saturating_add(BINS_AT[0] + END));
        for Segment { range, .. } in arena.segments {
            // While the program runs, the top may move on within the mapping.
            let last = mappings.iter().find(|mapping| mapping.range.contains(&range.end.saturating_sub(1)));
            ranges.push(range.start..last.map_or(range.end, |mapping| mapping.range.end));
        }
    }
    ranges
}

/// How thoroughly data is searched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effort {
    /// For arenas with empty bins.
    Quick,
    /// For those without any, too.
    Thorough,
}

/// Finds the arenas of a process; `None` when nothing in its writable data has the structure of an arena, or when they
/// are empty. A process has several heaps if it has several copies of the C library: by `dlmopen`, in a static program
/// that loads modules, or of a tool by `LD_AUDIT`.
pub fn find(memory: &impl Memory, mappings: &[Mapping]) -> Option<Arenas> {
    let data = writable_data(mappings);
    let heaps_by = |effort: Effort| {
        let mut heaps: Vec<Arenas> = Vec::new();
        for Data { range, is_libc } in &data {
            let effort = if *is_libc { Effort::Thorough } else { effort };
            let Some(ring) = ring_in(memory, mappings, range, effort) else { continue };
            // Data without names may be looked at twice, and heaps of other arenas may be taken for data: what is found
            // there is the ring of the main arena, from another arena on.
            let known = heaps.iter().flat_map(|heap| &heap.arenas);
            let is_new = known.map(|arena| arena.address).all(|address| !ring.arenas.contains(&address));
            heaps.extend(is_new.then(|| heap_of(memory, mappings, range, &ring)).filter(Arenas::is_used));
        }
        heaps.sort_by_key(|heap| Reverse(heap.system_bytes()));
        heaps.into_iter().reduce(Arenas::add)
    };
    heaps_by(Effort::Quick).or_else(|| heaps_by(Effort::Thorough))
}

/// Returns the heap whose arenas are a `ring`, the main one of which is in the data `arenas_in`.
fn heap_of(memory: &impl Memory, mappings: &[Mapping], arenas_in: &Range<u64>, ring: &Ring) -> Arenas {
    // Core files and emulators do not name the program break, and not every heap is there.
    let named = mappings.iter().find(|mapping| mapping.name == "[heap]").map(|mapping| mapping.range.start);
    let top = top(memory, ring.arenas[0] + ring.bins_at).map(|top| top.start);
    // Data of the program may lie directly in front.
    let ranges = top.map(|top| [neighbours(mappings, top), mapping_of(mappings, top)]);
    let starts = named.into_iter().chain(ranges.into_iter().flatten().flatten().map(|heap| heap.start));
    // Both are in the same file.
    let parameters = starts.into_iter().find_map(|heap| parameters(memory, arenas_in, heap));
    let mut seen = HashSet::new();
    let arena = |(number, &address): (usize, &u64)| {
        let bins = address + ring.bins_at;
        let system_bytes = memory.word(bins + SYSTEM_BYTES).filter(|bytes| *bytes < ADDRESSES).unwrap_or(0);
        let fast = (ring.bins_at >= WITH_FAST).then_some(bins - FAST);
        let arena = Arena { address, system_bytes, fast, ..Arena::default() };
        match number {
            0 => main_arena::with_memory(memory, mappings, bins, parameters.map(|known| known.heap_start), arena),
            _ => Arena { segments: heaps(memory, mappings, address, bins, &mut seen), ..arena },
        }
    };
    let arenas = ring.arenas.iter().enumerate().map(arena).collect();
    Arenas { arenas, parameters, data: vec![arenas_in.clone()] }
}

/// Writable data of a file.
struct Data {
    range: Range<u64>,
    /// Whether the file is the C library.
    is_libc: bool,
}

/// Returns the writable data of files, the C library's first. Zeroed data lies in a mapping behind that has no name.
/// Some core files name no file: then all data counts.
fn writable_data(mappings: &[Mapping]) -> Vec<Data> {
    let mut found: Vec<Data> = Vec::new();
    let has_names = mappings.iter().any(|mapping| mapping.name.starts_with('/'));
    for (number, mapping) in mappings.iter().enumerate() {
        if !mapping.is_data() || (has_names && !mapping.name.starts_with('/')) {
            continue;
        }
        let mut range = mapping.range.clone();
        if let Some(next) = mappings.get(number + 1).filter(|next| next.is_plain() && next.range.start == range.end) {
            range.end = next.range.end;
        }
        let file = mapping.name.rsplit('/').next().unwrap_or_default();
        let is_libc = file.starts_with("libc.so") || file.starts_with("libc-2");
        if range.end - range.start <= LONGEST_DATA {
            found.push(Data { range, is_libc });
        }
    }
    found.sort_by_key(|data| !data.is_libc);
    found
}

/// The arenas of a process by their addresses, and where in each the bins are.
struct Ring {
    arenas: Vec<u64>,
    bins_at: u64,
}

fn ring_in(memory: &impl Memory, mappings: &[Mapping], range: &Range<u64>, effort: Effort) -> Option<Ring> {
    // Nearly all files have none, and a process may be stopped meanwhile.
    if effort == Effort::Quick && !has_empty_bin(memory, range) {
        return None;
    }
    let words = memory.words(range);
    let link = |at: usize| (range.start + at as u64 * 8).wrapping_sub(HEADER);
    let is_empty = |at: usize| words.get(at) == Some(&link(at)) && words.get(at + 1) == Some(&link(at));
    let heaps: Vec<&Range<u64>> = mappings.iter().filter(|one| one.is_data()).map(|one| &one.range).collect();
    let may_be_chunk = |word: &u64| {
        let behind = heaps.partition_point(|heap| heap.start <= *word);
        word.is_multiple_of(ALIGN) && behind > 0 && heaps[behind - 1].contains(word)
    };
    let may_be_bin = |at: usize| is_empty(at) || words[at..].iter().take(2).all(may_be_chunk);
    let empty_bins = pair_counts(words.len(), is_empty);
    let ring_of = |start: usize| {
        let bins = range.start + start as u64 * 8;
        memory.word(bins - TOP).filter(|top| *top != 0 && top.is_multiple_of(ALIGN))?;
        BINS_AT.into_iter().find_map(|bins_at| ring(memory, bins.checked_sub(bins_at)?, bins_at))
    };
    let starts = 0..words.len().saturating_sub((END / 8) as usize);
    let mut with_empty: Vec<usize> = starts.clone().filter(|start| empty_bins[*start] >= EMPTY_BINS).collect();
    // Neighbours have nearly as many empty bins. The ring of arenas decides.
    with_empty.sort_by_key(|start| (Reverse(empty_bins[*start]), *start));
    let quick = with_empty.into_iter().find_map(ring_of);
    if effort == Effort::Quick {
        return quick;
    }
    quick.or_else(|| {
        let possible_bins = pair_counts(words.len(), may_be_bin);
        // All bins of a large heap may have chunks, which point back. Other mallocs have long tables of pointers, each
        // of which is a bin of many possible arenas: it is followed once.
        let followed: RefCell<HashMap<usize, bool>> = RefCell::default();
        let points_back =
            |at: usize| words[at].checked_add(24).and_then(|behind| memory.word(behind)) == Some(link(at));
        let is_linked = |start: usize| {
            let bins = (start..).step_by(2).take(BINS);
            let pointing_back =
                |at: &usize| is_empty(*at) || *followed.borrow_mut().entry(*at).or_insert_with(|| points_back(*at));
            bins.filter(pointing_back).count() >= BINS - TORN_BINS
        };
        let mut full = starts.filter(|start| possible_bins[*start] == BINS && is_linked(*start));
        full.find_map(ring_of)
    })
}

/// Whether any pair of words may be an empty bin. Data is read a part at a time.
fn has_empty_bin(memory: &impl Memory, range: &Range<u64>) -> bool {
    (range.start..range.end).step_by(PART as usize).any(|start| {
        // The second word of a pair may be in the next part.
        let words = memory.words(&(start..range.end.min(start + PART + 8)));
        let mut pairs = (start.wrapping_sub(HEADER)..).step_by(8).zip(words.windows(2));
        pairs.any(|(link, pair)| pair == [link; 2])
    })
}

/// Counts, from each word on, at how many of the next [`BINS`] pairs of words `is_one` holds.
fn pair_counts(words: usize, is_one: impl Fn(usize) -> bool) -> Vec<usize> {
    let mut sums: Vec<usize> = Vec::with_capacity(words);
    for at in 0..words {
        let before = at.checked_sub(2).map_or(0, |before| sums[before]);
        sums.push(before + usize::from(is_one(at)));
    }
    let count = |start: usize| {
        let before = start.checked_sub(2).map_or(0, |before| sums[before]);
        sums.get(start + (BINS - 1) * 2).map_or(0, |sum| sum - before)
    };
    (0..words).map(count).collect()
}

/// Follows the ring of arenas from `first`; `None` when it does not return.
fn ring(memory: &impl Memory, first: u64, bins_at: u64) -> Option<Ring> {
    let mut arenas = vec![first];
    let mut seen = HashSet::from([first]);
    while arenas.len() < MOST_ARENAS {
        let next = memory.word(arenas.last()?.checked_add(bins_at + NEXT)?)?;
        if next == first {
            return Some(Ring { arenas, bins_at });
        }
        if !next.is_multiple_of(8) || !seen.insert(next) {
            return None;
        }
        arenas.push(next);
    }
    None
}

/// Finds `mp_` by the start of the program break, which it contains.
fn parameters(memory: &impl Memory, range: &Range<u64>, heap: u64) -> Option<Parameters> {
    let words = memory.words(range);
    let starts = words.iter().enumerate().filter(|(_, word)| (heap..heap + (1 << 20)).contains(word));
    starts.into_iter().find_map(|(at, &heap_start)| {
        BREAK_AT.into_iter().find_map(|offset| {
            let first = at.checked_sub(offset as usize / 8)?;
            let field = |byte: u64| words.get(first + byte as usize / 8).copied();
            // Before 2.35 `n_mmaps` begins a word, since then it ends one.
            let (count, most_blocks) = match offset {
                72 => (field(40)? & 0xffff_ffff, field(40)? >> 32),
                _ => (field(offset - 40)? >> 32, field(offset - 32)? & 0xffff_ffff),
            };
            let (mapped, most_mapped) = (field(offset - 16)?, field(offset - 8)?);
            let is_sound = mapped.is_multiple_of(4096)
                && mapped <= most_mapped
                && most_mapped < ADDRESSES
                && (count == 0) == (mapped == 0)
                && most_blocks < 1 << 31
                && count <= most_blocks
                && heap_start.is_multiple_of(8)
                // Another version's layout has a small number as the threshold, or a long one as that of arenas.
                && (field(16)? == 0 || field(16)? >= 1024)
                && (1..1024).contains(&field(24)?)
                && field(32)? < 1 << 32;
            is_sound.then_some(Parameters {
                trim_threshold: field(0)?,
                mmap_threshold: field(16)?,
                arena_max: field(32)?,
                mmapped_blocks: count,
                mmapped_bytes: mapped,
                heap_start,
            })
        })
    })
}

/// Returns the heaps of an arena other than the main one: the heap with the top, and those in front of it.
///
/// No heap is taken that was `seen`: damaged memory must not lead round.
fn heaps(memory: &impl Memory, mappings: &[Mapping], arena: u64, bins: u64, seen: &mut HashSet<u64>) -> Vec<Segment> {
    let Some(top) = top(memory, bins) else { return Vec::new() };
    let belongs = |heap: u64| memory.word(heap) == Some(arena);
    let starts = HEAP_ALIGN.into_iter().map(|align| top.start & !(align - 1));
    let Some(mut heap) = starts.into_iter().find(|&heap| belongs(heap)) else { return Vec::new() };
    let mut found = Vec::new();
    while found.len() < MOST_HEAPS && belongs(heap) && seen.insert(heap) {
        let (Some(previous), Some(size)) = (memory.word(heap + 8), memory.word(heap + 16)) else { break };
        let info = HEAP_INFO.into_iter().find(|info| heap.checked_add(*info) == Some(arena));
        let is_first = info.is_some();
        let start = match is_first {
            true => align_up(bins + END, ALIGN),
            false => first_chunk(memory, heap),
        };
        let Some(mapped) = neighbours(mappings, heap) else { break };
        let end = heap.saturating_add(size).min(mapped.end);
        let top = (start..end).contains(&top.start).then_some(top.start);
        if start < end {
            found.push(Segment::new(start..end, top, mappings));
        }
        if is_first || previous == 0 || !previous.is_multiple_of(4096) {
            break;
        }
        heap = previous;
    }
    found
}

/// Returns the first chunk of a heap without an arena: `heap_info` became longer with 2.35, by the size of a page and
/// padding.
fn first_chunk(memory: &impl Memory, heap: u64) -> u64 {
    let is_new = memory.word(heap + 32).is_some_and(|page| page >= 4096 && page.is_power_of_two());
    heap + HEAP_INFO[usize::from(!is_new)]
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::image::Image;
    use crate::memory::PageState;

    /// Counts what is read.
    struct Counting<'m>(&'m Image, Cell<usize>);

    impl Memory for Counting<'_> {
        fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
            self.1.set(self.1.get() + 1);
            self.0.read(address, bytes)
        }

        fn pages(&self, address: u64, count: usize) -> Vec<PageState> {
            self.0.pages(address, count)
        }
    }

    #[test]
    fn tables_of_pointers_are_followed_once() {
        const WORDS: u64 = 10_000;
        let table: Vec<u8> = (0..WORDS).flat_map(|word| (0x10_0000 + word * 16).to_le_bytes()).collect();
        let mut image = Image::default();
        image.push(0x10000, table);
        image.push(0x10_0000, vec![0; 16 * WORDS as usize]);
        let mapping = |range: Range<u64>, name: &str| Mapping {
            range,
            name: name.to_owned(),
            access: "rw-p".to_owned(),
            ..Mapping::default()
        };
        let mappings = [mapping(0x10000..0x10000 + WORDS * 8, "/usr/bin/other"), mapping(0x10_0000..0x12_7100, "")];
        let memory = Counting(&image, Cell::default());
        assert!(find(&memory, &mappings).is_none());
        assert!(memory.1.get() <= 2 * WORDS as usize, "{}", memory.1.get());
    }

    #[test]
    fn an_arena_without_any_empty_bin_is_found() {
        const DATA: u64 = 0x10000;
        const HEAP: u64 = 0x40000;
        let (mut data, mut heap) = (vec![0_u64; 1024], vec![0_u64; 2048]);
        let arena = DATA + 0x100;
        let bins = arena + BINS_AT[0];
        let place = |address: u64| ((address - DATA) / 8) as usize;
        for bin in 0..BINS as u64 {
            let (link, chunk) = (bins + bin * 16 - HEADER, bin * 64);
            data[place(bins + bin * 16)] = HEAP + chunk;
            data[place(bins + bin * 16) + 1] = HEAP + chunk;
            heap[(chunk / 8) as usize + 2] = link;
            heap[(chunk / 8) as usize + 3] = link;
        }
        let top = HEAP + 0x3000;
        data[place(bins - TOP)] = top;
        data[place(bins + NEXT)] = arena;
        data[place(bins + SYSTEM_BYTES)] = 0x4000;
        let bytes = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let mapping = |range: Range<u64>, name: &str| Mapping {
            range,
            name: name.to_owned(),
            access: "rw-p".to_owned(),
            ..Mapping::default()
        };
        let mappings = [mapping(DATA..DATA + 8192, "/lib/libc.so.6"), mapping(HEAP..HEAP + 16384, "[heap]")];
        // In the middle of a request, the top that is left has no size yet.
        for size in [0x1001, 0] {
            heap[0x3000 / 8 + 1] = size;
            let mut image = Image::default();
            image.push(DATA, bytes(&data));
            image.push(HEAP, bytes(&heap));
            let found = find(&image, &mappings).unwrap();
            assert_eq!(found.arenas[0].address, arena);
            assert_eq!(found.arenas[0].segments[0], Segment::new(HEAP..HEAP + 0x4000, Some(top), &[]), "{size}");
        }
    }
}
