//! A picture of a process's memory: what it consists of, and what would bring it down.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use serde::Serialize;

use crate::glibc::{self, Block, Parameters, SizeClass, Walked};
use crate::mappings::Mapping;
use crate::memory::{Memory, PAGE, PageState};

/// Memory of one origin.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Origin {
    /// What it is.
    pub name: String,
    /// Bytes of addresses.
    pub mapped: u64,
    /// Bytes in memory.
    pub rss: u64,
    /// Bytes in memory, each divided by the number of processes that share it.
    pub pss: u64,
    /// Bytes in memory that other processes share.
    pub shared: u64,
    /// Bytes in swap.
    pub swap: u64,
}

/// An arena of glibc's malloc. Bytes are those of whole chunks, headers included.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ArenaPicture {
    /// Its number; 0 is the main arena.
    pub number: usize,
    /// Bytes that it has from the system.
    pub system_bytes: u64,
    /// Bytes that are not free to malloc, as `mallinfo2` counts them: thread caches among them.
    pub used: u64,
    /// Free bytes as `mallinfo2` counts them: bins, fast bins and the top.
    pub free: u64,
    /// Bytes of blocks that the program has.
    pub live: u64,
    /// Number of blocks that the program has.
    pub blocks: u64,
    /// Free bytes in bins.
    pub bins: u64,
    /// Free bytes in fast bins.
    pub fast: u64,
    /// Free bytes in thread caches whose tables lie in this arena.
    pub cached: u64,
    /// Thread caches whose tables lie in this arena and that have blocks.
    pub caches: usize,
    /// Bytes of the top chunk.
    pub top: u64,
    /// Bytes in memory.
    pub resident: u64,
    /// Bytes in swap.
    pub swapped: u64,
    /// Bytes in memory of what `free` counts.
    pub resident_free: u64,
    /// Bytes in memory that `malloc_trim(0)` gives back.
    pub trim: u64,
    /// The last block in front of the top.
    pub pin: Option<Block>,
    /// Free bytes in front of this block.
    pub before_pin: u64,
    /// Places that contradict themselves.
    pub inconsistencies: u64,
    /// Bytes of which nothing is known.
    pub unknown: u64,
}

/// What is known of glibc's malloc in the process.
#[derive(Clone, Debug, Serialize)]
pub struct Glibc {
    /// `mp_`, where it was found.
    pub parameters: Option<Parameters>,
    /// The arenas, the main one first.
    pub arenas: Vec<ArenaPicture>,
    /// Blocks by the size of their chunks; above 1 KiB, up to each power of two. Thread caches are taken out.
    pub sizes: BTreeMap<u64, SizeClass>,
    /// Runs of free chunks, up to each power of two.
    pub holes: BTreeMap<u64, SizeClass>,
    /// The longest blocks.
    pub largest: Vec<Block>,
    /// Bytes in memory that `malloc_trim(0)` gives back.
    pub trim: u64,
    /// Free bytes in memory of all arenas but the main one: what a smaller `MALLOC_ARENA_MAX` can at most avoid.
    pub arena_max_bound: u64,
    /// Bytes in memory that compaction could give back at best.
    pub compaction_bound: u64,
}

/// A picture of a process's memory.
#[derive(Clone, Debug, Serialize)]
pub struct Picture {
    /// The process.
    pub pid: u32,
    /// Its program's name.
    pub program: String,
    /// Whether its threads were stopped meanwhile.
    pub stopped: bool,
    /// Bytes in memory.
    pub rss: u64,
    /// All memory by origin.
    pub origins: Vec<Origin>,
    /// The malloc of the process, as far as it is known.
    pub allocator: String,
    /// glibc's malloc, where its structure was found.
    pub glibc: Option<Glibc>,
}

/// What makes the picture's title.
pub struct Subject {
    /// The process.
    pub pid: u32,
    /// Its program's name.
    pub program: String,
    /// Whether its threads are stopped.
    pub stopped: bool,
}

impl Picture {
    /// Takes a picture of `memory`.
    pub fn take(subject: Subject, memory: &impl Memory, mappings: &[Mapping]) -> Picture {
        let arenas = glibc::find(memory, mappings);
        let segments: Vec<Range<u64>> = match &arenas {
            Some(found) => found.arenas.iter().flat_map(|arena| &arena.segments).map(|one| one.range.clone()).collect(),
            None => Vec::new(),
        };
        let is_plain_block = |(number, mapping): &(usize, &Mapping)| {
            mapping.is_plain() && !overlaps(&segments, &mapping.range) && !is_stack(mappings, *number)
        };
        let plain: Vec<&Mapping> = mappings.iter().enumerate().filter(is_plain_block).map(|(_, one)| one).collect();
        let own = match arenas.as_ref().and_then(|found| found.parameters) {
            Some(Parameters { mmapped_blocks: 0, .. }) | None => Vec::new(),
            Some(_) => glibc::own_mappings(memory, &plain),
        };
        Picture {
            pid: subject.pid,
            program: subject.program,
            stopped: subject.stopped,
            rss: mappings.iter().map(|mapping| mapping.rss).sum(),
            origins: origins(memory, mappings, &segments, &own),
            allocator: allocator(mappings, arenas.is_some()).to_owned(),
            glibc: arenas.map(|found| Glibc::of(memory, &found, &own)),
        }
    }
}

impl Glibc {
    fn of(memory: &impl Memory, found: &glibc::Arenas, own: &[Range<u64>]) -> Glibc {
        let mut all = Glibc {
            parameters: found.parameters,
            arenas: Vec::new(),
            sizes: BTreeMap::new(),
            holes: BTreeMap::new(),
            largest: Vec::new(),
            trim: 0,
            arena_max_bound: 0,
            compaction_bound: 0,
        };
        for (number, arena) in found.arenas.iter().enumerate() {
            let (fast, damaged) = glibc::fast_blocks(memory, arena);
            let mut walked = glibc::walk(memory, arena, &fast, number == 0);
            walked.inconsistencies += damaged;
            all.add(number, arena.system_bytes, walked);
        }
        for mapping in own {
            let bytes = mapping.end - mapping.start;
            add(&mut all.sizes, bytes.next_power_of_two(), SizeClass { blocks: 1, bytes });
            all.largest.push(Block { address: mapping.start + 16, bytes });
        }
        all.largest.sort_by_key(|block| std::cmp::Reverse(block.bytes));
        all.largest.truncate(10);
        all
    }

    fn add(&mut self, number: usize, system_bytes: u64, walked: Walked) {
        let lists = || walked.caches.iter().flat_map(|cache| &cache.lists);
        let cached: u64 = lists().map(|list| list.size * list.blocks).sum();
        let cached_blocks: u64 = lists().map(|list| list.blocks).sum();
        for (&size, class) in &walked.sizes {
            add(&mut self.sizes, size, *class);
        }
        for list in lists() {
            let class = self.sizes.entry(exact(list.size)).or_default();
            class.blocks = class.blocks.saturating_sub(list.blocks);
            class.bytes = class.bytes.saturating_sub(list.blocks * list.size);
        }
        for (&size, class) in &walked.holes {
            add(&mut self.holes, size, *class);
        }
        self.largest.extend(&walked.largest);
        let free = walked.free.bytes + walked.fast.bytes + walked.top;
        let live = walked.used.bytes.saturating_sub(cached);
        self.trim += walked.trim;
        self.arena_max_bound += if number == 0 { 0 } else { walked.resident_free };
        self.compaction_bound += walked.resident.saturating_sub(live);
        self.arenas.push(ArenaPicture {
            number,
            system_bytes,
            used: system_bytes.saturating_sub(free),
            free,
            live,
            blocks: walked.used.blocks.saturating_sub(cached_blocks),
            bins: walked.free.bytes,
            fast: walked.fast.bytes,
            cached,
            caches: walked.caches.len(),
            top: walked.top,
            resident: walked.resident,
            swapped: walked.swapped,
            resident_free: walked.resident_free,
            trim: walked.trim,
            pin: walked.pin,
            before_pin: walked.before_pin,
            inconsistencies: walked.inconsistencies,
            unknown: walked.unknown,
        });
    }

    /// Returns the bytes of blocks that the program has: in arenas, and with mappings of their own.
    pub fn live(&self) -> u64 {
        let in_arenas: u64 = self.arenas.iter().map(|arena| arena.live).sum();
        in_arenas + self.parameters.map_or(0, |parameters| parameters.mmapped_bytes)
    }

    /// Returns the free bytes in memory.
    pub fn resident_free(&self) -> u64 {
        self.arenas.iter().map(|arena| arena.resident_free).sum()
    }
}

fn add(classes: &mut BTreeMap<u64, SizeClass>, size: u64, more: SizeClass) {
    let class = classes.entry(size).or_default();
    class.blocks += more.blocks;
    class.bytes += more.bytes;
}

/// Returns the key of a size that thread caches have: up to 1 KiB it is exact.
fn exact(size: u64) -> u64 {
    if size <= 1024 { size } else { size.next_power_of_two() }
}

fn overlaps(segments: &[Range<u64>], range: &Range<u64>) -> bool {
    segments.iter().any(|segment| segment.start < range.end && range.start < segment.end)
}

/// Whether a mapping looks like a thread's stack: behind a guard without access.
fn is_stack(mappings: &[Mapping], number: usize) -> bool {
    let mapping = &mappings[number];
    let guard = number.checked_sub(1).map(|before| &mappings[before]);
    let is_guarded = guard.is_some_and(|guard| {
        guard.access.starts_with("---") && guard.name.is_empty() && guard.range.end == mapping.range.start
    });
    mapping.name.starts_with("[stack") || (mapping.is_plain() && is_guarded)
}

/// Returns all memory by origin, most resident first.
fn origins(memory: &impl Memory, mappings: &[Mapping], segments: &[Range<u64>], own: &[Range<u64>]) -> Vec<Origin> {
    let mut found: BTreeMap<String, Origin> = BTreeMap::new();
    for (number, mapping) in mappings.iter().enumerate() {
        let name = origin(mappings, number, segments);
        let mut left = mapping.clone();
        let inside = own.iter().filter(|one| mapping.range.contains(&one.start));
        for block in inside {
            let pages = memory.pages(block.start, ((block.end - block.start) / PAGE) as usize);
            let is_in = |state| pages.iter().filter(|one| **one == state).count() as u64 * PAGE;
            let rss = is_in(PageState::Present).min(left.rss);
            let swap = is_in(PageState::Swapped).min(left.swap);
            let entry = found.entry("blocks with mappings of their own".to_owned()).or_default();
            entry.mapped += block.end - block.start;
            entry.rss += rss;
            entry.pss += rss.min(left.pss);
            entry.swap += swap;
            left.range.end = left.range.end.saturating_sub(block.end - block.start);
            left.rss -= rss;
            left.pss -= rss.min(left.pss);
            left.swap -= swap;
        }
        let entry = found.entry(name).or_default();
        entry.mapped += left.range.end.saturating_sub(left.range.start);
        entry.rss += left.rss;
        entry.pss += left.pss;
        entry.shared += left.shared;
        entry.swap += left.swap;
    }
    let named = found.into_iter().map(|(name, origin)| Origin { name, ..origin });
    let mut all: Vec<Origin> = named.filter(|origin| origin.rss + origin.swap > 0).collect();
    all.sort_by_key(|origin| std::cmp::Reverse(origin.rss));
    all
}

fn origin(mappings: &[Mapping], number: usize, segments: &[Range<u64>]) -> String {
    let mapping = &mappings[number];
    let name = mapping.name.as_str();
    if name == "[heap]" {
        return "main arena (program break)".to_owned();
    }
    if overlaps(segments, &mapping.range) {
        return "other arenas".to_owned();
    }
    if is_stack(mappings, number) {
        return "stacks".to_owned();
    }
    if name.starts_with("[anon:") || name.starts_with("/memfd:") || name.starts_with("/dev/shm/") {
        return name.to_owned();
    }
    match name.chars().next() {
        Some('/') => "files".to_owned(),
        Some(_) => "kernel".to_owned(),
        None => "other anonymous".to_owned(),
    }
}

/// Returns the name of the malloc of the process.
fn allocator(mappings: &[Mapping], is_glibc: bool) -> &'static str {
    const OTHERS: [(&str, &str); 5] = [
        ("libheapwright", "Heapwright"),
        ("libjemalloc", "jemalloc"),
        ("libmimalloc", "mimalloc"),
        ("libtcmalloc", "tcmalloc"),
        ("ld-musl", "musl"),
    ];
    let files: HashSet<&str> = mappings.iter().filter_map(|mapping| mapping.name.rsplit('/').next()).collect();
    let is_loaded = |start: &str| files.iter().any(|file| file.starts_with(start));
    match OTHERS.iter().find(|(start, _)| is_loaded(start)) {
        Some((_, name)) => name,
        None if is_glibc => "glibc",
        None => "not known",
    }
}
