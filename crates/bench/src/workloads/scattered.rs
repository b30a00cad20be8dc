//! Frees random blocks and then idles. Measures whether the allocator purges memory without further calls.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use fastrand::Rng;

use crate::heap::{Block, Heap, PAGE};
use crate::notes::Notes;
use crate::resident::Resident;
use crate::setup::Setup;

/// The number of blocks allocated.
const BLOCKS: usize = 1_000_000;

/// The table of blocks. It is static, because memory of the heap would be measured.
static TABLE: Mutex<[Option<Block>; BLOCKS]> = Mutex::new([const { None }; BLOCKS]);

/// The name of the figure of resident memory before the frees, in bytes.
pub const PEAK: &str = "resident_before";
/// The samples of resident memory: milliseconds after the last free, and the name of the figure, in bytes.
pub const SAMPLES: [(u64, &str); 5] = [
    (0, "resident_after_0_ms"),
    (250, "resident_after_250_ms"),
    (500, "resident_after_500_ms"),
    (1000, "resident_after_1000_ms"),
    (2000, "resident_after_2000_ms"),
];
/// The name of the figure of all pages with a live block, in bytes: a lower bound for allocators that do not move
/// blocks.
pub const LIVE_PAGES: &str = "live_pages";

/// Frees the share `freed` of all blocks, then samples resident memory for two seconds.
pub fn run(setup: &Setup, notes: &mut Notes, freed: f64) -> Result<(), String> {
    let (heap, mut rng) = (Heap::of_this_process(), Rng::with_seed(1));
    let mut table = TABLE.lock().map_err(|error| error.to_string())?;
    let blocks = &mut table[..setup.times(BLOCKS)];
    // Makes the pages of the table resident before the first sample.
    blocks.fill_with(|| None);
    let resident = Resident::open()?;
    let unknown = || "the kernel does not report resident memory".to_owned();
    let before = resident.anonymous().ok_or_else(unknown)?;
    let heap_memory = || Some(resident.anonymous()?.saturating_sub(before));
    blocks.fill_with(|| Some(heap.allocate(rng.usize(16..=512))));
    notes.add(PEAK, heap_memory().ok_or_else(unknown)?);
    rng.shuffle(blocks);
    let (to_free, left) = blocks.split_at_mut((blocks.len() as f64 * freed) as usize);
    to_free.iter_mut().filter_map(Option::take).for_each(|block| heap.free(block));
    // Nothing is allocated from here until the last sample.
    let mut passed = 0;
    let mut samples = [None; SAMPLES.len()];
    for (sample, (milliseconds, _)) in samples.iter_mut().zip(SAMPLES) {
        thread::sleep(Duration::from_millis(milliseconds - passed));
        (*sample, passed) = (heap_memory(), milliseconds);
    }
    for (sample, (_, name)) in samples.into_iter().zip(SAMPLES) {
        notes.add(name, sample.ok_or_else(unknown)?);
    }
    notes.add(LIVE_PAGES, (pages(left.iter().flatten()) * PAGE) as u64);
    Ok(())
}

/// Returns the number of pages that overlap a block.
fn pages<'a>(blocks: impl Iterator<Item = &'a Block>) -> usize {
    let range = |block: &Block| block.address() / PAGE..=(block.address() + block.bytes() - 1) / PAGE;
    blocks.flat_map(range).collect::<BTreeSet<usize>>().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_that_overlaps_a_block_counts_once() {
        let heap = Heap::of_this_process();
        let block = heap.allocate(2 * PAGE);
        let expected = 2 + usize::from(!block.address().is_multiple_of(PAGE));
        assert_eq!(pages([&block, &block].into_iter()), expected);
        heap.free(block);
    }
}
