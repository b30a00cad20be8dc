//! A program of phases. Each allocates blocks of sizes of its own, and leaves a few of them alive at random: holes that
//! the next phase, with other sizes, can use or not.

use std::ops::RangeInclusive;

use fastrand::Rng;

use crate::heap::{Block, Heap};
use crate::notes::Notes;
use crate::setup::Setup;
use crate::table::Table;
use crate::workloads::kept::{HeapMemory, PEAK};

/// The sizes of the phases.
const SIZES: [RangeInclusive<usize>; 6] = [64..=256, 2000..=4000, 24..=96, 400..=1000, 1000..=2000, 16..=4096];

/// The bytes that each phase allocates.
const BYTES: usize = 96 << 20;

/// Of this many blocks of a phase one stays alive.
const PART: usize = 25;

/// The most blocks that are alive at a time.
const BLOCKS: usize = 2_500_000;

/// Runs the phases, then samples resident memory for two seconds.
pub fn run(setup: &Setup, notes: &mut Notes) -> Result<(), String> {
    let (heap, mut rng) = (Heap::of_this_process(), Rng::with_seed(1));
    let mut table = Table::of(BLOCKS)?;
    let memory = HeapMemory::open()?;
    let (mut kept, mut peak) = (0, 0);
    for sizes in SIZES {
        let blocks = &mut table[kept..];
        let allocated = allocate(&heap, sizes, setup.times(BYTES), blocks, &mut rng)?;
        peak = memory.bytes()?.max(peak);
        rng.shuffle(&mut blocks[..allocated]);
        let survivors = allocated / PART;
        blocks[survivors..allocated].iter_mut().filter_map(Option::take).for_each(|block| heap.free(block));
        kept += survivors;
    }
    notes.add(PEAK, peak);
    memory.sample(table[..kept].iter().flatten(), notes)
}

/// Fills the table until its blocks have `bytes` bytes; returns their number.
fn allocate(
    heap: &Heap,
    sizes: RangeInclusive<usize>,
    bytes: usize,
    table: &mut [Option<Block>],
    rng: &mut Rng,
) -> Result<usize, String> {
    let (mut count, mut sum) = (0, 0);
    while sum < bytes {
        let size = rng.usize(sizes.clone());
        *table.get_mut(count).ok_or("the table of blocks is full")? = Some(heap.allocate(size));
        (count, sum) = (count + 1, sum + size);
    }
    Ok(count)
}
