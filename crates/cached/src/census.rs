//! A census of the heap: its slabs and blocks by class, from the metadata.
//!
//! The metadata of a slab contains the number of blocks that are out, that is used by the program, or in a thread cache
//! or an inbox. The blocks in the calling thread's cache and in inboxes are subtracted; those in the caches of other
//! threads count as used.

use heapwright_heaps::Counters;

use crate::harden;
use crate::long;
use heapwright_slabs::arena::{ARENA, ArenaGuard};
use heapwright_slabs::classes::{CLASSES, SLAB, size_of_class};
use heapwright_slabs::entry::{DISSOLVED, Entry};
use heapwright_slabs::origin::Origin;
use heapwright_slabs::{mode, thread};

/// The slabs of one size at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassSlabs {
    /// The length of their blocks in bytes.
    pub size: usize,
    /// The number of slabs.
    pub slabs: usize,
    /// The number of blocks that the program uses.
    pub used: usize,
    /// The number of those that lie in dissolved slabs.
    pub dissolved: usize,
    /// The number of free blocks of these slabs in thread caches and inboxes, as far as is known.
    pub listed: usize,
    /// The number of blocks of a slab. The slabs of the hardened heap have guard pages.
    per_slab: usize,
}

impl ClassSlabs {
    /// Returns no slabs with blocks of `size` bytes, which is not 0.
    #[must_use]
    pub const fn none_of(size: usize) -> ClassSlabs {
        ClassSlabs { size, slabs: 0, used: 0, dissolved: 0, listed: 0, per_slab: SLAB / size }
    }

    /// Returns the number of blocks in these slabs, used and free.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.slabs * self.per_slab
    }

    /// Returns the number of free blocks in these slabs, those in caches and inboxes among them.
    #[must_use]
    pub fn free(&self) -> usize {
        (self.blocks() + self.dissolved).saturating_sub(self.used)
    }
}

/// What is found of a class.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    slabs: usize,
    /// Blocks of these slabs that are out, and those of them that are in caches and inboxes.
    out: usize,
    listed: usize,
    /// The same of dissolved slabs.
    out_dissolved: usize,
    listed_dissolved: usize,
}

/// The heap at one moment. While other threads allocate, its parts are of moments that lie close together.
#[derive(Clone, Debug)]
pub struct Census {
    /// The counters of the page heap, whose blocks are slabs and long blocks.
    pub pages: Counters,
    /// The unused bytes at the end of the page heap.
    pub tail: usize,
    /// Bytes of guards and quarantined long blocks of the hardened heap, of long blocks in thread caches, and of ranges
    /// that were given back to the system.
    apart: usize,
    /// The number of long blocks in quarantine or in thread caches, and of ranges that were given back.
    waiting: usize,
    /// The number of long blocks that have mappings of their own, and their bytes.
    mapped: (usize, usize),
    classes: [Found; CLASSES],
    dissolved: DissolvedSlabs,
}

/// The slabs with blocks of several classes: few blocks of their first class were left. The blocks count among those of
/// their classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DissolvedSlabs {
    /// The number of slabs.
    pub slabs: usize,
    /// The number of blocks that the program uses.
    pub used: usize,
    /// The number of free blocks in thread caches and inboxes, as far as is known.
    pub listed: usize,
    /// The bytes of these blocks.
    pub listed_bytes: usize,
    /// The number of holes.
    pub holes: usize,
    /// The bytes of the holes.
    pub hole_bytes: usize,
}

impl DissolvedSlabs {
    /// The length of the longest hole that is possible, in bytes: a slab's.
    pub const LONGEST_HOLE: usize = SLAB;
}

impl Census {
    /// Returns the sizes of which there are slabs, the shortest first.
    pub fn classes(&self) -> impl Iterator<Item = ClassSlabs> + '_ {
        // The first two have blocks of one size.
        (1..CLASSES).filter_map(|class| {
            let Found { mut slabs, mut out, mut listed, out_dissolved, listed_dissolved } = self.classes[class];
            if class == 1 {
                let first = self.classes[0];
                (slabs, out, listed) = (slabs + first.slabs, out + first.out, listed + first.listed);
            }
            let dissolved = out_dissolved.saturating_sub(listed_dissolved);
            let used = out.saturating_sub(listed) + dissolved;
            let size = size_of_class(class);
            let class = ClassSlabs { size, slabs, used, dissolved, listed, per_slab: harden::slab_length() / size };
            (slabs + out_dissolved != 0).then_some(class)
        })
    }

    /// Returns the bytes of slabs.
    #[must_use]
    pub fn slab_bytes(&self) -> usize {
        self.slabs() * SLAB
    }

    /// Returns the slabs with blocks of several classes.
    #[must_use]
    pub fn dissolved(&self) -> DissolvedSlabs {
        self.dissolved
    }

    fn slabs(&self) -> usize {
        self.classes().map(|class| class.slabs).sum::<usize>() + self.dissolved.slabs
    }

    /// Returns the number of long blocks.
    #[must_use]
    pub fn long_blocks(&self) -> usize {
        let others = self.slabs() + self.waiting;
        let placed = (self.pages.blocks.saturating_sub(self.pages.holes) as usize).saturating_sub(others);
        placed + self.mapped.0
    }

    /// Returns the bytes of long blocks.
    #[must_use]
    pub fn long_bytes(&self) -> usize {
        (self.pages.live as usize).saturating_sub(self.slab_bytes() + self.apart) + self.mapped.1
    }

    /// Returns the bytes of the blocks that the program uses.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.long_bytes() + self.classes().map(|class| class.used * class.size).sum::<usize>()
    }

    /// Adds the slab or long block of the hardened heap at a number.
    fn add_span(&mut self, number: u32) {
        let Some(span) = harden::span_at(number) else { return };
        self.apart += span.apart;
        match span.class {
            Some(class) => {
                self.classes[class].slabs += 1;
                self.classes[class].out += span.live;
            }
            None => self.waiting += 1 - span.live,
        }
    }

    fn add_slab(&mut self, number: u32, entry: Entry) {
        if entry.class() == DISSOLVED {
            let map = ARENA.grain_map(number);
            self.dissolved.slabs += 1;
            self.dissolved.holes += map.count_holes();
            self.dissolved.hole_bytes += SLAB;
            map.each_class(|class| {
                self.dissolved.used += 1;
                self.dissolved.hole_bytes -= size_of_class(class);
                self.classes[class].out_dissolved += 1;
            });
        } else {
            let class = &mut self.classes[entry.class()];
            class.slabs += 1;
            class.out += ARENA.blocks_out(number).count() as usize;
        }
    }

    fn add_cached(&mut self, origin: &Origin) {
        let class = &mut self.classes[origin.class];
        match origin.entry.class() {
            DISSOLVED => {
                class.listed_dissolved += 1;
                self.dissolved.used = self.dissolved.used.saturating_sub(1);
                self.dissolved.listed += 1;
                self.dissolved.listed_bytes += size_of_class(origin.class);
            }
            _ => class.listed += 1,
        }
    }
}

/// Takes a census of the process; `None` before the first allocation. Time: proportional to the number of slabs and of
/// blocks in the calling thread's cache and in inboxes.
#[must_use]
pub fn census() -> Option<Census> {
    take(|_| true)
}

/// Takes a census of one heap, by its number: of its slabs only, and of their blocks in whichever cache or inbox.
#[must_use]
pub fn census_of(heap: u32) -> Option<Census> {
    take(|entry| entry.owner() == heap)
}

/// Returns the number of heaps; their numbers begin at 1. 0 in the hardened heap, which is shared by all threads.
#[must_use]
pub fn heaps() -> u32 {
    if mode::is_hardened() {
        return 0;
    }
    ARENA.lock().map_or(0, |arena| arena.heaps.made())
}

/// Takes a census of the slabs whose entries are `wanted`. The arena is locked, so that no slab is placed or freed
/// meanwhile.
fn take(wanted: impl Fn(Entry) -> bool) -> Option<Census> {
    let arena = ARENA.lock()?;
    let pages = arena.pages.counters().unwrap_or_default();
    let tail = (pages.heap_size as usize).saturating_sub(arena.pages.top());
    let (mapped, classes) = (long::apart(&arena), [Found::default(); CLASSES]);
    let (dissolved, gone) = (DissolvedSlabs::default(), arena.surrendered());
    let mut census = Census { pages, tail, apart: gone.bytes, waiting: gone.ranges, mapped, classes, dissolved };
    for number in 0..(pages.heap_size as usize).div_ceil(SLAB) as u32 {
        if mode::is_hardened() {
            census.add_span(number);
        }
        let entry = ARENA.entry(number);
        if entry != Entry::NONE && wanted(entry) {
            census.add_slab(number, entry);
        }
    }
    add_caches(&arena, &mut census, wanted);
    Some(census)
}

/// Adds the blocks in the calling thread's cache, and in the inbox of each heap; of long blocks, those in the caches of
/// all threads.
fn add_caches(arena: &ArenaGuard, census: &mut Census, wanted: impl Fn(Entry) -> bool) {
    if !mode::is_hardened() {
        let (blocks, bytes) = long::in_caches(arena);
        census.waiting += blocks;
        census.apart += bytes;
    }
    let mut add = |origin: Origin| {
        if wanted(origin.entry) {
            census.add_cached(&origin);
        }
    };
    if let Some(own) = thread::heap_if_any() {
        own.each_cached(&mut add);
    }
    for heap in arena.heaps.all() {
        heap.each_waiting(&mut add);
    }
}
