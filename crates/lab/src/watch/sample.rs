//! A heap as it was at one moment, copied from the process it belongs to.

use std::fs;
use std::iter;
use std::path::Path;

use heapwright_beacon::Beacon;
use heapwright_cached::SlabGlance;
use heapwright_os::read_foreign;
use heapwright_placement::{Block, BlockState, Counters, Glance, HoleStats, PolicyKind};

use crate::policy::CACHED;

use super::sight::{Sight, Unseen};
use super::slabs::Slabs;
use super::view::Piece;

/// How often a copy is made anew because the program worked on its heap meanwhile.
const ATTEMPTS: usize = 4;

/// The longest map that is copied, in cells of 8 bytes: that of 16 GiB in granules of 16 bytes.
const LONGEST_MAP: usize = 32 << 20;

/// How many cells counters take.
const COUNTERS: usize = size_of::<Counters>() / 8;

/// The cached heap, hardened: nothing is in slabs as it usually is.
const HARDENED: &str = "cached, hardened";

/// Whether a copy shows the heap as it was between two operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clarity {
    /// Nobody worked on the heap while it was copied.
    Sharp,
    /// Somebody did, every time: parts may be from before an operation and parts from after it.
    Blurred,
}

/// A heap at one moment.
#[derive(Clone)]
pub struct Sample {
    /// The policy's name.
    pub policy: &'static str,
    /// What happened so far to those that the engine places: the program's blocks; of the cached heap, slabs and longer
    /// blocks. `None` when the heap does not count.
    pub counters: Option<Counters>,
    /// The holes, of the part that is known.
    pub holes: HoleStats,
    /// The address of the heap's first byte.
    pub region: u64,
    /// Whether an operation was under way.
    pub clarity: Clarity,
    /// The engine's; `None` where every block is a mapping of its own.
    pub layout: Option<Layout>,
    /// Those of the cached heap; `None` of any other, and where its parts cannot be told, for it is hardened.
    pub slabs: Option<Slabs>,
    /// Whether the engine places blocks of the program and nothing else.
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

    /// Where the free tail begins.
    pub fn top(&self) -> usize {
        self.glance.top()
    }

    /// The smallest unit of placement, in bytes.
    pub fn granule(&self) -> usize {
        self.glance.granule()
    }

    /// How many bytes of the heap are known; all of it unless it is very long.
    pub fn known(&self) -> usize {
        if self.map.len() < self.glance.map().len() {
            self.map.len() / 2 * 64 * self.granule()
        } else {
            self.heap_size()
        }
    }

    /// The blocks in the part that is known, in address order.
    pub fn blocks(&self) -> impl Iterator<Item = Block> {
        let known = self.known();
        let within = self.glance.blocks(&self.map).take_while(move |block| block.offset < known);
        within.map(move |block| Block { size: block.size.min(known - block.offset), ..block })
    }
}

impl Sample {
    /// Bytes in blocks that the program has.
    pub fn live(&self) -> Option<u64> {
        let live = self.counters?.live;
        let Some(slabs) = &self.slabs else { return self.places_blocks.then_some(live) };
        Some(self.long_bytes()? + slabs.sum(|class| class.used * class.size))
    }

    /// Bytes in blocks of the cached heap that lie in no slab.
    pub fn long_bytes(&self) -> Option<u64> {
        let slabs = self.slabs.as_ref()?.count() * SlabGlance::LENGTH;
        Some(self.counters?.live.saturating_sub(slabs as u64))
    }

    /// How many those are.
    pub fn long_blocks(&self) -> Option<u64> {
        let Counters { blocks, holes, .. } = self.counters?;
        Some(blocks.saturating_sub(holes).saturating_sub(self.slabs.as_ref()?.count() as u64))
    }

    /// What lies where, in address order; nothing where every block is a mapping of its own.
    pub fn pieces(&self) -> Box<dyn Iterator<Item = Piece> + '_> {
        match (&self.layout, &self.slabs) {
            (None, _) => Box::new(iter::empty()),
            (Some(layout), None) => Box::new(layout.blocks().map(Piece::from)),
            (Some(layout), Some(slabs)) => Box::new(layout.blocks().flat_map(|block| slabs.pieces(block))),
        }
    }

    /// Copies the heap at `sight` as it is now; again when the program works on it meanwhile, but not for ever.
    pub fn take(sight: &Sight) -> Result<Sample, Unseen> {
        let mut sample = attempt(sight)?;
        for _ in 1..ATTEMPTS {
            if sample.clarity == Clarity::Sharp {
                break;
            }
            sample = attempt(sight)?;
        }
        Ok(sample)
    }

    /// How long the heap at `sight` is, in bytes, and nothing else.
    pub fn heap_size(sight: &Sight) -> Result<usize, Unseen> {
        let told = &sight.told;
        if told.metadata == 0 {
            let cells = read_cells(sight.pid, told.counters, COUNTERS)?;
            return Ok(of_counters(&cells)
                .and_then(|sample| sample.counters)
                .map_or(0, |found| found.heap_size as usize));
        }
        let head = read_cells(sight.pid, told.metadata, Glance::HEAD)?;
        Glance::of(&head).map(|glance| glance.heap_size()).map_err(|_| Unseen::NotAHeap)
    }

    /// Reads the last state that a process left in `file`; `None` when it left none, or not all of it.
    pub fn left_in(file: &Path) -> Option<Sample> {
        let bytes = fs::read(file).ok()?;
        let told = Beacon::read(&bytes).ok()?;
        let cells = cells_of(bytes.get(Beacon::LENGTH..)?);
        if told.metadata == 0 {
            return of_counters(&cells);
        }
        let glance = Glance::of(&cells).ok()?;
        let (map, heap_size) = (glance.map(), glance.heap_size());
        let behind = bytes.get(Beacon::LENGTH + 8 * map.end..)?;
        let sample = Sample::of_engine(told.region, glance, cells.get(map)?.to_vec(), Clarity::Sharp);
        if told.slabs == 0 {
            return Some(sample);
        }
        let slabs = if told.heaps == 0 { None } else { Some(Slabs::left(behind, heap_size)?) };
        Some(sample.with_slabs(slabs))
    }

    /// The heap at address `region` that `glance` and `map`, a copy of its cells, show. Time: a walk of the heap.
    pub fn of_engine(region: u64, glance: Glance, map: Vec<u64>, clarity: Clarity) -> Sample {
        let (policy, counters) = (glance.policy().name(), glance.counters());
        let layout = Layout { glance, map };
        let mut holes = HoleStats::default();
        for block in layout.blocks().filter(|block| block.state == BlockState::Free) {
            holes.add(block.size);
        }
        Sample { policy, counters, holes, region, clarity, layout: Some(layout), slabs: None, places_blocks: true }
    }

    /// What happened to the program's blocks, as far as it is counted.
    pub fn counted(&self) -> Option<Counters> {
        self.counters.filter(|_| self.places_blocks)
    }

    /// The cached heap, whose slabs these are; none where it is hardened.
    fn with_slabs(self, slabs: Option<Slabs>) -> Sample {
        let policy = if slabs.is_some() { CACHED } else { HARDENED };
        Sample { policy, slabs, places_blocks: false, ..self }
    }
}

/// Copies the heap once. The lock and the head, which counts every operation, are looked at before and after.
fn attempt(sight: &Sight) -> Result<Sample, Unseen> {
    let told = &sight.told;
    let idle_before = is_idle(sight)?;
    if told.metadata == 0 {
        let cells = read_cells(sight.pid, told.counters, COUNTERS)?;
        let same = read_cells(sight.pid, told.counters, COUNTERS)? == cells;
        let mut sample = of_counters(&cells).ok_or(Unseen::NotAHeap)?;
        sample.clarity = clarity(idle_before && same && is_idle(sight)?);
        return Ok(sample);
    }
    let head = read_cells(sight.pid, told.metadata, Glance::HEAD)?;
    let glance = Glance::of(&head).map_err(|_| Unseen::NotAHeap)?;
    if PolicyKind::ALL.into_iter().all(|kind| kind as u64 != told.policy || kind != glance.policy()) {
        return Err(Unseen::NotAHeap);
    }
    let cells = glance.map();
    if cells.end as u64 > told.cells {
        return Err(Unseen::NotAHeap);
    }
    let map = read_cells(sight.pid, told.metadata + 8 * cells.start as u64, cells.len().min(LONGEST_MAP))?;
    let heap_size = glance.heap_size();
    let mut sample = Sample::of_engine(told.region, glance, map, Clarity::Sharp);
    let mut same = true;
    if told.slabs != 0 && told.heaps == 0 {
        sample = sample.with_slabs(None);
    } else if told.slabs != 0 {
        let slabs = Slabs::take(sight, heap_size)?;
        // Threads work in their own heaps without the lock, but not without a trace there.
        same = slabs.has_heaps(&Slabs::heaps_at(sight)?);
        sample = sample.with_slabs(Some(slabs));
    }
    same &= read_cells(sight.pid, told.metadata, Glance::HEAD)? == head;
    sample.clarity = clarity(idle_before && same && is_idle(sight)?);
    Ok(sample)
}

fn clarity(undisturbed: bool) -> Clarity {
    if undisturbed { Clarity::Sharp } else { Clarity::Blurred }
}

fn is_idle(sight: &Sight) -> Result<bool, Unseen> {
    let mut word = [0; 4];
    read_foreign(sight.pid, sight.told.lock as usize, &mut word)?;
    Ok(word == [0; 4])
}

/// The sample of a heap that has counters and nothing else to show.
fn of_counters(cells: &[u64]) -> Option<Sample> {
    let cells: &[u64; COUNTERS] = cells.first_chunk()?;
    // SAFETY: counters are `repr(C)` and consist of as many whole numbers of 8 bytes.
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

/// Reads `count` bytes at `address` of process `pid`.
pub fn read_bytes(pid: u32, address: u64, count: usize) -> Result<Vec<u8>, Unseen> {
    let mut bytes = vec![0; count];
    let mut read = 0;
    while read < bytes.len() {
        match read_foreign(pid, address as usize + read, &mut bytes[read..])? {
            0 => return Err(Unseen::NotAHeap),
            more => read += more,
        }
    }
    Ok(bytes)
}

fn cells_of(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks().0.iter().map(|&cell| u64::from_ne_bytes(cell)).collect()
}
