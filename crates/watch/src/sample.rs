//! A sample of a heap: a copy from the process that it belongs to.

use std::fs;
use std::iter;
use std::path::Path;

use heapwright_beacon::Beacon;
use heapwright_cached::SlabGlance;
use heapwright_placement::{Block, BlockState, Counters, Glance, HoleStats, PolicyKind};

use heapwright_allocators::policy::CACHED;

use super::foreign::read_bytes;
use super::location::HeapLocation;
use super::slabs::{Mapped, Slabs};
use super::unseen::Unseen;
use super::view::Piece;

/// The most attempts at a consistent copy, while the program works on its heap.
const ATTEMPTS: usize = 4;

/// The longest map that is copied, in cells of 8 bytes: that of 16 GiB in granules of 16 bytes.
const LONGEST_MAP: usize = 32 << 20;

/// Cells of the counters.
const COUNTERS: usize = size_of::<Counters>() / 8;

/// Name of the hardened cached heap, whose slabs have another layout.
const HARDENED: &str = "cached, hardened";

/// Whether a copy is consistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clarity {
    /// No operation was in progress while the heap was copied.
    Sharp,
    /// An operation was in progress in every attempt: the copy may mix states from before and after it.
    Blurred,
}

/// A heap at one moment.
#[derive(Clone)]
pub struct Sample {
    /// The policy's name.
    pub policy: &'static str,
    /// Counters of the blocks that the engine places: the program's blocks, or the slabs and longer blocks of the
    /// cached heap. `None` if the heap does not count.
    pub counters: Option<Counters>,
    /// The holes in the copied part.
    pub holes: HoleStats,
    /// The address of the heap's first byte.
    pub region: u64,
    /// Whether the copy is consistent.
    pub clarity: Clarity,
    /// The engine's layout; `None` if every block is a mapping of its own.
    pub layout: Option<Layout>,
    /// The slabs of the cached heap; `None` for any other heap, and for a hardened one, whose slabs cannot be decoded.
    pub slabs: Option<Slabs>,
    /// Whether the engine places the program's blocks and nothing else.
    pub places_blocks: bool,
}

/// Where blocks lie.
#[derive(Clone)]
pub struct Layout {
    glance: Glance,
    map: Vec<u64>,
}

impl Layout {
    /// Bytes from the region's start to the heap's end.
    pub fn heap_size(&self) -> usize {
        self.glance.heap_size()
    }

    /// Returns the offset of the free tail.
    pub fn top(&self) -> usize {
        self.glance.top()
    }

    /// Returns the smallest unit of placement, in bytes.
    pub fn granule(&self) -> usize {
        self.glance.granule()
    }

    /// Returns how many bytes of the heap were copied; all of it unless it is very long.
    pub fn known(&self) -> usize {
        if self.map.len() < self.glance.map().len() {
            self.map.len() / 2 * 64 * self.granule()
        } else {
            self.heap_size()
        }
    }

    /// Returns the blocks in the copied part, in address order.
    pub fn blocks(&self) -> impl Iterator<Item = Block> {
        let known = self.known();
        let within = self.glance.blocks(&self.map).take_while(move |block| block.offset < known);
        within.map(move |block| Block { size: block.size.min(known - block.offset), ..block })
    }
}

impl Sample {
    /// Returns the bytes in live blocks.
    pub fn live(&self) -> Option<u64> {
        let live = self.counters?.live;
        let Some(slabs) = &self.slabs else { return self.places_blocks.then_some(live) };
        Some(
            self.long_bytes()?
                + slabs.mapped.bytes
                + slabs.sum(|class| class.used * class.size)
                + slabs.dissolved.block_bytes as u64,
        )
    }

    /// Returns the bytes in blocks of the cached heap outside slabs, without those that have mappings of their own.
    pub fn long_bytes(&self) -> Option<u64> {
        let slabs = self.slabs.as_ref()?;
        let others = (slabs.count() * SlabGlance::LENGTH) as u64 + slabs.kept_bytes();
        Some(self.counters?.live.saturating_sub(others))
    }

    /// Returns the number of blocks of the cached heap outside slabs, without those that have mappings of their own.
    pub fn long_blocks(&self) -> Option<u64> {
        let Counters { blocks, holes, .. } = self.counters?;
        let slabs = self.slabs.as_ref()?;
        Some(blocks.saturating_sub(holes).saturating_sub(slabs.count() as u64 + slabs.kept_blocks()))
    }

    /// Returns the pieces of the heap in address order; none if every block is a mapping of its own.
    pub fn pieces(&self) -> Box<dyn Iterator<Item = Piece> + '_> {
        match (&self.layout, &self.slabs) {
            (None, _) => Box::new(iter::empty()),
            (Some(layout), None) => Box::new(layout.blocks().map(Piece::from)),
            (Some(layout), Some(slabs)) => Box::new(layout.blocks().flat_map(|block| slabs.pieces(block))),
        }
    }

    /// Copies the heap at `location`; retries a limited number of times while the program works on it.
    pub fn take(location: &HeapLocation) -> Result<Sample, Unseen> {
        let mut sample = attempt(location)?;
        for _ in 1..ATTEMPTS {
            if sample.clarity == Clarity::Sharp {
                break;
            }
            sample = attempt(location)?;
        }
        Ok(sample)
    }

    /// Returns only the length of the heap at `location` and its blocks outside, in bytes.
    pub fn heap_size(location: &HeapLocation) -> Result<usize, Unseen> {
        let contents = &location.contents;
        if contents.metadata == 0 {
            let cells = read_cells(location.pid, contents.counters, COUNTERS)?;
            return Ok(of_counters(&cells)
                .and_then(|sample| sample.counters)
                .map_or(0, |found| found.heap_size as usize));
        }
        let head = read_cells(location.pid, contents.metadata, Glance::HEAD)?;
        let glance = Glance::of(&head).map_err(|_| Unseen::NotAHeap)?;
        let mapped = if contents.mappings == 0 { Mapped::default() } else { Mapped::at(location)? };
        Ok(glance.heap_size() + mapped.bytes as usize)
    }

    /// Reads the last state that a process left in `file`; `None` if there is none, or only a part.
    pub fn left_in(file: &Path) -> Option<Sample> {
        let bytes = fs::read(file).ok()?;
        let contents = Beacon::read(&bytes).ok()?;
        let cells = cells_of(bytes.get(Beacon::LENGTH..)?);
        if contents.metadata == 0 {
            return of_counters(&cells);
        }
        let glance = Glance::of(&cells).ok()?;
        let (map, heap_size) = (glance.map(), glance.heap_size());
        let behind = bytes.get(Beacon::LENGTH + 8 * map.end..)?;
        let sample = Sample::of_engine(contents.region, glance, cells.get(map)?.to_vec(), Clarity::Sharp);
        if contents.slabs == 0 {
            return Some(sample);
        }
        let slabs = if contents.heaps == 0 { None } else { Some(Slabs::left(behind, heap_size)?) };
        Some(sample.with_slabs(slabs))
    }

    /// Decodes the heap at address `region` from `glance` and `map`, a copy of its cells. Time: a walk of the heap.
    pub fn of_engine(region: u64, glance: Glance, map: Vec<u64>, clarity: Clarity) -> Sample {
        let (policy, counters) = (glance.policy().name(), glance.counters());
        let layout = Layout { glance, map };
        let mut holes = HoleStats::default();
        for block in layout.blocks().filter(|block| block.state == BlockState::Free) {
            holes.add(block.size);
        }
        Sample { policy, counters, holes, region, clarity, layout: Some(layout), slabs: None, places_blocks: true }
    }

    /// Returns the counters of the program's blocks, if they are counted.
    pub fn counted(&self) -> Option<Counters> {
        self.counters.filter(|_| self.places_blocks)
    }

    /// Turns the sample into one of the cached heap with these slabs; without slabs it is a hardened one.
    fn with_slabs(self, slabs: Option<Slabs>) -> Sample {
        let policy = if slabs.is_some() { CACHED } else { HARDENED };
        Sample { policy, slabs, places_blocks: false, ..self }
    }
}

/// Copies the heap once. Reads the lock and the head, which counts every operation, before and after the copy.
fn attempt(location: &HeapLocation) -> Result<Sample, Unseen> {
    let contents = &location.contents;
    let idle_before = is_idle(location)?;
    if contents.metadata == 0 {
        let cells = read_cells(location.pid, contents.counters, COUNTERS)?;
        let same = read_cells(location.pid, contents.counters, COUNTERS)? == cells;
        let mut sample = of_counters(&cells).ok_or(Unseen::NotAHeap)?;
        sample.clarity = clarity(idle_before && same && is_idle(location)?);
        return Ok(sample);
    }
    let head = read_cells(location.pid, contents.metadata, Glance::HEAD)?;
    let glance = Glance::of(&head).map_err(|_| Unseen::NotAHeap)?;
    if PolicyKind::ALL.into_iter().all(|kind| kind as u64 != contents.policy || kind != glance.policy()) {
        return Err(Unseen::NotAHeap);
    }
    let cells = glance.map();
    if cells.end as u64 > contents.cells {
        return Err(Unseen::NotAHeap);
    }
    let map = read_cells(location.pid, contents.metadata + 8 * cells.start as u64, cells.len().min(LONGEST_MAP))?;
    let heap_size = glance.heap_size();
    let mut sample = Sample::of_engine(contents.region, glance, map, Clarity::Sharp);
    let mut same = true;
    if contents.slabs != 0 && contents.heaps == 0 {
        sample = sample.with_slabs(None);
    } else if contents.slabs != 0 {
        let slabs = Slabs::take(location, heap_size)?;
        // Threads work in their own heaps without the lock, but each operation changes the thread's heap.
        same = slabs.has_heaps(&Slabs::heaps_at(location)?);
        sample = sample.with_slabs(Some(slabs));
    }
    same &= read_cells(location.pid, contents.metadata, Glance::HEAD)? == head;
    sample.clarity = clarity(idle_before && same && is_idle(location)?);
    Ok(sample)
}

fn clarity(undisturbed: bool) -> Clarity {
    if undisturbed { Clarity::Sharp } else { Clarity::Blurred }
}

fn is_idle(location: &HeapLocation) -> Result<bool, Unseen> {
    Ok(read_bytes(location.pid, location.contents.lock, 4)? == [0; 4])
}

/// Decodes a heap that has nothing but counters.
fn of_counters(cells: &[u64]) -> Option<Sample> {
    let cells: &[u64; COUNTERS] = cells.first_chunk()?;
    // SAFETY: the array is as long as `Counters` and 8-byte aligned; `Counters` is `repr(C)` and consists of integers
    // of 8 bytes, for which any bytes are valid.
    let counters = unsafe { cells.as_ptr().cast::<Counters>().read() };
    let (policy, holes, region) = ("mapped", HoleStats::default(), 0);
    Some(Sample {
        policy,
        counters: Some(counters),
        holes,
        region,
        clarity: Clarity::Sharp,
        layout: None,
        slabs: None,
        places_blocks: true,
    })
}

/// Reads `count` cells at `address` of process `pid`.
fn read_cells(pid: u32, address: u64, count: usize) -> Result<Vec<u64>, Unseen> {
    read_bytes(pid, address, 8 * count).map(|bytes| cells_of(&bytes))
}

fn cells_of(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks().0.iter().map(|&cell| u64::from_ne_bytes(cell)).collect()
}
