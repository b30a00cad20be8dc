//! Frees random blocks and then idles. Measures whether the allocator purges memory without further calls.

use fastrand::Rng;

use crate::heap::Heap;
use crate::notes::Notes;
use crate::setup::Setup;
use crate::table::Table;
use crate::workloads::kept::{HeapMemory, PEAK};

/// The number of blocks allocated.
const BLOCKS: usize = 1_000_000;

/// Frees the share `freed` of all blocks, then samples resident memory for two seconds.
pub fn run(setup: &Setup, notes: &mut Notes, freed: f64) -> Result<(), String> {
    let (heap, mut rng) = (Heap::of_this_process(), Rng::with_seed(1));
    let mut table = Table::of(setup.times(BLOCKS))?;
    let blocks = &mut table[..];
    let memory = HeapMemory::open()?;
    blocks.fill_with(|| Some(heap.allocate(rng.usize(16..=512))));
    notes.add(PEAK, memory.bytes()?);
    rng.shuffle(blocks);
    let (to_free, left) = blocks.split_at_mut((blocks.len() as f64 * freed) as usize);
    to_free.iter_mut().filter_map(Option::take).for_each(|block| heap.free(block));
    memory.sample(left.iter().flatten(), notes)
}
