//! A picture of a process's memory: what it consists of, and what would bring it down.

mod heaps;
mod origins;
mod threads;

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use heapwright_watch::figures::{Class, HeapFigures, Unseen};
use serde::Serialize;

use crate::allocators::{UNKNOWN, allocator, is_data_in_swap};
use crate::glibc::{self, Arena, ArenaMap, Block, Cache, Listing, Parameters, SizeClass, Walked};
use crate::mappings::Mapping;
use crate::memory::{Memory, PAGE, PageState, page_count};
use crate::peek::{self, Contents, Statics};
use crate::threads::Threads;

use self::heaps::Heaps;
pub use self::origins::Origin;
use self::origins::origins;
pub use self::threads::ThreadPicture;

/// `M_TRIM_THRESHOLD` and `M_MMAP_THRESHOLD` where the program has not changed them and they have not grown.
pub const DEFAULT_THRESHOLD: u64 = 128 << 10;

/// An arena of glibc's malloc. Bytes are those of whole chunks, headers included.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ArenaPicture {
    /// Its number; 0 is the main arena, of the largest heap if there are several.
    pub number: usize,
    /// The number of its heap, if every copy of the C library has one: from 0 on, the largest first.
    pub heap: usize,
    /// Whether it is the main arena of its heap.
    pub is_main: bool,
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
    /// Free bytes of this arena that lie in thread caches; `None` where a cache changed while it was read. Then they
    /// count as live.
    pub cached: Option<u64>,
    /// Blocks of this arena that lie in thread caches.
    pub cached_blocks: Option<u64>,
    /// Bytes of the top chunk.
    pub top: u64,
    /// Bytes in memory.
    pub resident: u64,
    /// Bytes in swap.
    pub swapped: u64,
    /// Bytes in memory of what `free` counts.
    pub resident_free: u64,
    /// Bytes in memory of the top.
    pub resident_top: u64,
    /// Bytes in memory of holes of 128 KiB and longer.
    pub resident_long_holes: u64,
    /// Bytes in memory that `malloc_trim(0)` gives back.
    pub trim: u64,
    /// What lies where.
    pub map: ArenaMap,
    /// The last block in front of the top.
    pub pin: Option<Block>,
    /// Free bytes in front of this block.
    pub before_pin: u64,
    /// Places that contradict themselves.
    pub inconsistencies: u64,
    /// Bytes of which nothing is known.
    pub unknown: u64,
    /// Bytes of which nothing is known because what describes them is in swap.
    pub unread: u64,
    /// Bytes of which nothing is known because the program has no access to what describes them.
    pub closed: u64,
    /// Bytes that the main arena has in other places than its top, and that are not looked into: something was in the
    /// way of the program break.
    pub elsewhere: u64,
    /// Bytes between blocks that the program has from the system itself, by `sbrk`.
    pub foreign: u64,
}

/// What is known of glibc's malloc in the process.
#[derive(Clone, Debug, Serialize)]
pub struct Glibc {
    /// `mp_`, where it was found.
    pub parameters: Option<Parameters>,
    /// The arenas, the main one first.
    pub arenas: Vec<ArenaPicture>,
    /// The threads.
    pub threads: Vec<ThreadPicture>,
    /// Blocks by the size of their chunks; above 1 KiB, up to each power of two. Thread caches are taken out.
    pub sizes: BTreeMap<u64, SizeClass>,
    /// Bytes in memory of blocks with mappings of their own.
    pub own_resident: u64,
    /// Runs of free chunks, up to each power of two.
    pub holes: BTreeMap<u64, SizeClass>,
    /// The longest blocks.
    pub largest: Vec<Block>,
    /// Bytes in memory that `malloc_trim(0)` gives back.
    pub trim: u64,
    /// By each `MALLOC_ARENA_MAX`, the bytes that it can at most avoid.
    pub arena_max_bounds: BTreeMap<usize, u64>,
    /// Bytes that `M_TRIM_THRESHOLD` of 128 KiB, which then stays so, can at most avoid.
    pub trim_threshold_bound: u64,
    /// Bytes in memory of holes of 128 KiB and longer. If they were blocks of such a length, `M_MMAP_THRESHOLD` of 128
    /// KiB, which then stays so, avoids them.
    pub mmap_threshold_estimate: u64,
    /// Bytes in memory that compaction could give back at best.
    pub compaction_bound: u64,
    /// The program's blocks by address, when they are listed.
    #[serde(skip)]
    pub blocks: Vec<Block>,
}

/// Times of reading a live process.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Times {
    /// How long the process was stopped, in seconds; 0 when it ran.
    pub stopped: f64,
    /// How long copying its memory took, in seconds: a part of the time above. 0 when it was read where it lies.
    pub copying: f64,
    /// Bytes that were copied.
    pub copied: u64,
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
    /// Times of reading, of a live process.
    pub times: Option<Times>,
    /// Bytes that a core file lacks.
    pub missing: u64,
    /// Bytes in memory.
    pub rss: u64,
    /// All memory by origin.
    pub origins: Vec<Origin>,
    /// The malloc of the process, as far as it is known.
    pub allocator: String,
    /// glibc's malloc, where its structure was found.
    pub glibc: Option<Glibc>,
    /// The heap of `libheapwright.so`, where the process runs under it.
    pub heapwright: Option<HeapFigures>,
    /// Bytes in memory, at most, of its blocks with mappings of their own.
    pub heapwright_mapped_resident: Option<u64>,
    /// Why its heap cannot be read: that of its `libheapwright.so`, or glibc's.
    pub unread: Option<String>,
    /// What its blocks contain, when it was asked for.
    pub contents: Option<Contents>,
    /// Why it is not known what its blocks contain, when it was asked for.
    pub contents_unread: Option<&'static str>,
}

/// What the main arena may have more from the system than lies between its first chunk and its end.
const SMALL_DIFFERENCE: u64 = 64 << 10;

/// Why no heap of glibc's is found in a process whose libraries' data is in swap.
const DATA_IN_SWAP: &str = "data of its libraries is in swap, where malloc's arenas may be, and reading would bring it \
                            back: try again when the program has worked on its heap";

/// Why blocks of other mallocs than glibc's are not looked into.
const NOT_LOOKED_INTO: &str = "--peek looks into those of glibc's malloc only";

/// What makes the picture's title.
pub struct Subject {
    /// The process.
    pub pid: u32,
    /// Its program's name.
    pub program: String,
    /// Whether its threads are stopped.
    pub stopped: bool,
    /// Its threads and stacks.
    pub threads: Threads,
    /// The malloc that its program contains.
    pub linked: Option<&'static str>,
    /// Whether blocks are listed.
    pub listing: Listing,
}

impl Picture {
    /// Takes a picture of `memory`.
    pub fn take(subject: Subject, memory: &impl Memory, mappings: &[Mapping]) -> Picture {
        let arenas = glibc::find(memory, mappings);
        let heaps = Heaps::of(arenas.as_ref());
        let may_be_own = |mapping: &&Mapping| mapping.is_nameless() && !heaps.overlap(&mapping.range);
        let nameless: Vec<&Mapping> = mappings.iter().filter(may_be_own).collect();
        let own = match arenas.as_ref().and_then(|found| found.parameters) {
            Some(Parameters { mmapped_blocks: 0, .. }) | None => Vec::new(),
            Some(_) => glibc::own_mappings(memory, &nameless),
        };
        let allocator = allocator(mappings, subject.linked, arenas.is_some());
        Picture {
            pid: subject.pid,
            stopped: subject.stopped,
            times: None,
            missing: 0,
            rss: mappings.iter().map(|mapping| mapping.rss).sum(),
            origins: origins(memory, mappings, &subject.threads, &heaps, &own),
            unread: (allocator == UNKNOWN && is_data_in_swap(mappings)).then(|| DATA_IN_SWAP.to_owned()),
            allocator: allocator.to_owned(),
            glibc: arenas.map(|found| Glibc::of(memory, &found, &own, &subject)),
            heapwright: None,
            heapwright_mapped_resident: None,
            program: subject.program,
            contents: None,
            contents_unread: None,
        }
    }

    /// Takes the heap of `libheapwright.so` into the picture, if the process was found to have one.
    pub fn add_own(&mut self, heap: Result<HeapFigures, Unseen>, mappings: &[Mapping]) {
        match heap {
            Ok(heap) => {
                // Where its mapped blocks lie is not in its metadata.
                let plain = mappings.iter().filter(|mapping| mapping.is_plain()).map(|mapping| mapping.rss);
                let outside = plain.sum::<u64>().saturating_sub(heap.resident);
                let are_all_mapped = heap.heap_size.is_none();
                let mapped = heap.mapped_bytes.or(heap.live.filter(|_| are_all_mapped));
                self.heapwright_mapped_resident = mapped.map(|bytes| bytes.min(outside));
                self.heapwright = Some(heap);
            }
            Err(Unseen::NoHeap | Unseen::Gone | Unseen::Denied) => return,
            Err(reason) => self.unread = Some(reason.to_string()),
        }
        "Heapwright".clone_into(&mut self.allocator);
    }

    /// Returns the bytes of blocks that the program has, where they are known.
    pub fn live(&self) -> Option<u64> {
        match &self.heapwright {
            Some(heap) => heap.live,
            None => self.glibc.as_ref().map(Glibc::live),
        }
    }

    /// Returns the program's blocks by size, as far as they are known.
    pub fn sizes(&self) -> BTreeMap<u64, SizeClass> {
        let of_class = |class: &Class| {
            (class.size as u64, SizeClass { blocks: class.used as u64, bytes: class.bytes_used() as u64 })
        };
        match (&self.heapwright, &self.glibc) {
            (Some(heap), _) => heap.classes.iter().map(of_class).collect(),
            (None, Some(glibc)) => glibc.sizes.clone(),
            (None, None) => BTreeMap::new(),
        }
    }

    /// Looks into its blocks of glibc's malloc, which are listed and lie in `memory`. The heap of `libheapwright.so`,
    /// if it has one, is in the picture already.
    pub fn peek(&mut self, memory: &impl Memory, mappings: &[Mapping], statics: &dyn Statics) {
        let blocks = self.glibc.as_ref().map(|glibc| glibc.blocks.as_slice());
        let has_others = blocks.is_none() || self.heapwright.is_some() || self.unread.is_some();
        self.contents = blocks.map(|blocks| peek::look(memory, blocks, mappings, statics));
        self.contents_unread = has_others.then_some(NOT_LOOKED_INTO);
    }
}

impl Glibc {
    fn of(memory: &impl Memory, found: &glibc::Arenas, own: &[Range<u64>], subject: &Subject) -> Glibc {
        let mut all = Glibc {
            parameters: found.parameters,
            arenas: Vec::new(),
            threads: Vec::new(),
            sizes: BTreeMap::new(),
            own_resident: own.iter().map(|range| resident(memory, range)).sum(),
            holes: BTreeMap::new(),
            largest: Vec::new(),
            trim: 0,
            arena_max_bounds: BTreeMap::new(),
            trim_threshold_bound: 0,
            mmap_threshold_estimate: 0,
            blocks: Vec::new(),
            compaction_bound: 0,
        };
        let walk = |arena: &Arena| {
            let (fast, damaged) = glibc::fast_blocks(memory, arena);
            let mut walked = glibc::walk(memory, arena, &fast, subject.listing);
            let has_nothing = arena.system_bytes == 0 && !arena.segments.is_empty();
            walked.inconsistencies += damaged + u64::from(has_nothing);
            walked
        };
        let mut walked: Vec<Walked> = found.arenas.iter().map(walk).collect();
        let caches: Vec<Cache> = walked.iter_mut().flat_map(|arena| std::mem::take(&mut arena.caches)).collect();
        let cached = cached_by_arena(&found.arenas, &caches);
        let (threads, torn) = threads::of(memory, &subject.threads, &found.arenas, &caches);
        all.threads = threads;
        for (number, (walked, cached)) in walked.into_iter().zip(cached).enumerate() {
            let cached = (!torn.contains(&number)).then_some(cached);
            all.add(&found.arenas[number], walked, cached);
        }
        let free_lists = caches.iter().flat_map(|cache| &cache.lists);
        let own_blocks = own.iter().map(|range| Block { address: range.start + 16, bytes: range.end - range.start });
        let own_blocks: Vec<Block> = own_blocks.collect();
        if subject.listing == Listing::Listed {
            all.blocks.extend(&own_blocks);
        }
        all.blocks.sort_unstable_by_key(|block| block.address);
        let is_cached: HashSet<u64> = free_lists.flat_map(|list| &list.blocks).copied().collect();
        all.blocks.retain(|block| !is_cached.contains(&block.address));
        for list in caches.iter().flat_map(|cache| &cache.lists) {
            let class = all.sizes.entry(exact(list.size)).or_default();
            class.blocks = class.blocks.saturating_sub(list.blocks.len() as u64);
            class.bytes = class.bytes.saturating_sub(list.bytes());
        }
        all.arena_max_bounds = arena_max_bounds(&all.arenas);
        for block in own_blocks {
            add(&mut all.sizes, block.bytes.next_power_of_two(), SizeClass { blocks: 1, bytes: block.bytes });
            all.largest.push(block);
        }
        all.largest.sort_by_key(|block| std::cmp::Reverse(block.bytes));
        all.largest.truncate(10);
        all
    }

    fn add(&mut self, arena: &Arena, walked: Walked, cached: Option<SizeClass>) {
        let system_bytes = arena.system_bytes;
        for (&size, class) in &walked.sizes {
            add(&mut self.sizes, size, *class);
        }
        for (&size, class) in &walked.holes {
            add(&mut self.holes, size, *class);
        }
        self.largest.extend(&walked.largest);
        self.blocks.extend(&walked.listed);
        let free = walked.free.bytes + walked.fast.bytes + walked.top;
        let known = cached.unwrap_or_default();
        let elsewhere = if arena.is_main { system_bytes.saturating_sub(walked.bytes) } else { 0 };
        // The first chunk is aligned, and the break may move while it is read.
        let elsewhere = if elsewhere > SMALL_DIFFERENCE { elsewhere } else { 0 };
        let live = walked.used.bytes.saturating_sub(known.bytes);
        self.trim += walked.trim;
        self.trim_threshold_bound += walked.resident_top.saturating_sub(DEFAULT_THRESHOLD);
        self.mmap_threshold_estimate += walked.resident_long_holes;
        self.compaction_bound += walked.resident.saturating_sub(live) + elsewhere;
        self.arenas.push(ArenaPicture {
            number: self.arenas.len(),
            heap: arena.heap,
            is_main: arena.is_main,
            system_bytes,
            used: system_bytes.saturating_sub(free),
            free,
            live,
            blocks: walked.used.blocks.saturating_sub(known.blocks),
            bins: walked.free.bytes,
            fast: walked.fast.bytes,
            cached: cached.map(|cached| cached.bytes),
            cached_blocks: cached.map(|cached| cached.blocks),
            top: walked.top,
            resident: walked.resident,
            swapped: walked.swapped,
            resident_free: walked.resident_free,
            resident_top: walked.resident_top,
            resident_long_holes: walked.resident_long_holes,
            trim: walked.trim,
            map: walked.map,
            pin: walked.pin,
            before_pin: walked.before_pin,
            inconsistencies: walked.inconsistencies,
            unknown: walked.unknown,
            unread: walked.unread,
            closed: walked.closed,
            elsewhere,
            foreign: walked.foreign,
        });
    }

    /// Returns the bytes of blocks that the program has: in arenas, and with mappings of their own.
    pub fn live(&self) -> u64 {
        let in_arenas: u64 = self.arenas.iter().map(|arena| arena.live).sum();
        in_arenas + self.parameters.map_or(0, |parameters| parameters.mmapped_bytes)
    }

    /// Returns the bytes in memory of blocks that the program has, with headers of arenas. Programs allocate more than
    /// they touch.
    pub fn resident_live(&self) -> u64 {
        let of_arena = |arena: &ArenaPicture| {
            arena.resident.saturating_sub(arena.resident_free + arena.cached.unwrap_or(0) + arena.foreign)
        };
        self.arenas.iter().map(of_arena).sum::<u64>() + self.own_resident
    }

    /// Returns the number of heaps: every copy of the C library has one.
    pub fn heaps(&self) -> usize {
        self.arenas.last().map_or(0, |arena| arena.heap + 1)
    }

    /// Returns how the arena of this number is called.
    pub fn name_of(&self, number: usize) -> String {
        match self.arenas.get(number) {
            Some(arena) if arena.is_main && arena.heap > 0 => format!("main of heap {}", arena.heap + 1),
            Some(arena) if arena.is_main => "main".to_owned(),
            _ => number.to_string(),
        }
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

/// Returns for each number of arenas, by powers of two, the free bytes in memory of those that would not be: at most
/// those with the most, the main arena not among them.
fn arena_max_bounds(arenas: &[ArenaPicture]) -> BTreeMap<usize, u64> {
    let others = arenas.iter().filter(|arena| !arena.is_main);
    let mut free: Vec<u64> = others.map(|arena| arena.resident_free).collect();
    free.sort_unstable_by_key(|bytes| std::cmp::Reverse(*bytes));
    let limits = (0..usize::BITS).map(|power| 1 << power).take_while(|limit| *limit <= free.len());
    limits.map(|limit| (limit, free[..free.len() + 1 - limit].iter().sum())).collect()
}

/// Returns the bytes of pages of `range` that are in memory.
fn resident(memory: &impl Memory, range: &Range<u64>) -> u64 {
    present(memory, range).into_iter().filter(|is_present| *is_present).count() as u64 * PAGE
}

/// Returns for each page of `range` whether it is in memory.
pub(crate) fn present(memory: &impl Memory, range: &Range<u64>) -> Vec<bool> {
    memory.pages(range.start, page_count(range)).into_iter().map(|state| state == PageState::Present).collect()
}

/// Returns what of each arena lies in thread caches: a thread caches blocks of any arena.
fn cached_by_arena(arenas: &[Arena], caches: &[Cache]) -> Vec<SizeClass> {
    let ranges = arenas
        .iter()
        .enumerate()
        .flat_map(|(number, arena)| arena.segments.iter().map(move |segment| (segment.range.clone(), number)));
    let mut ranges: Vec<(Range<u64>, usize)> = ranges.collect();
    ranges.sort_by_key(|(range, _)| range.start);
    let mut cached = vec![SizeClass::default(); arenas.len()];
    for list in caches.iter().flat_map(|cache| &cache.lists) {
        for block in &list.blocks {
            let behind = ranges.partition_point(|(range, _)| range.start <= *block);
            if let Some((_, number)) = ranges[..behind].last().filter(|(range, _)| range.contains(block)) {
                cached[*number].add(list.size);
            }
        }
    }
    cached
}
