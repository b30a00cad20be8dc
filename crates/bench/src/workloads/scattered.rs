//! Blocks freed in scattered places, and then a program that does nothing: does the memory go back without another call?

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use fastrand::Rng;

use crate::heap::{Block, Heap, PAGE};
use crate::notes::Notes;
use crate::resident::Resident;
use crate::setup::Setup;

/// Blocks at first.
const BLOCKS: usize = 1_000_000;

/// Where they are kept: outside of the heap, whose memory is what counts.
static KEPT: Mutex<[Option<Block>; BLOCKS]> = Mutex::new([const { None }; BLOCKS]);

/// The figure of what the heap held before anything was freed, in bytes.
pub const PEAK: &str = "resident_before";
/// The figures of what it held when so many milliseconds had passed after the last free, in bytes.
pub const SAMPLES: [(u64, &str); 5] = [
    (0, "resident_after_0_ms"),
    (250, "resident_after_250_ms"),
    (500, "resident_after_500_ms"),
    (1000, "resident_after_1000_ms"),
    (2000, "resident_after_2000_ms"),
];
/// The figure of the bytes of all pages in which a live block lies: no allocator that moves no blocks holds less.
pub const LIVE_PAGES: &str = "live_pages";

/// Frees the share `freed` of all blocks and waits.
pub fn run(setup: &Setup, notes: &mut Notes, freed: f64) -> Result<(), String> {
    let (heap, mut rng) = (Heap::of_this_process(), Rng::with_seed(1));
    let mut kept = KEPT.lock().map_err(|error| error.to_string())?;
    let kept = &mut kept[..setup.times(BLOCKS)];
    // Their pages are there before the heap is looked at for the first time.
    kept.fill_with(|| None);
    let resident = Resident::open()?;
    let silent = || "the kernel does not say how much memory is resident".to_owned();
    let before = resident.anonymous().ok_or_else(silent)?;
    let held = || Some(resident.anonymous()?.saturating_sub(before));
    kept.fill_with(|| Some(heap.allocate(rng.usize(16..=512))));
    notes.add(PEAK, held().ok_or_else(silent)?);
    rng.shuffle(kept);
    let (gone, left) = kept.split_at_mut((kept.len() as f64 * freed) as usize);
    gone.iter_mut().filter_map(Option::take).for_each(|block| heap.free(block));
    // From here on nothing is allocated until the last look.
    let mut passed = 0;
    let mut seen = [None; SAMPLES.len()];
    for (seen, (milliseconds, _)) in seen.iter_mut().zip(SAMPLES) {
        thread::sleep(Duration::from_millis(milliseconds - passed));
        (*seen, passed) = (held(), milliseconds);
    }
    for (seen, (_, name)) in seen.into_iter().zip(SAMPLES) {
        notes.add(name, seen.ok_or_else(silent)?);
    }
    notes.add(LIVE_PAGES, (pages(left.iter().flatten()) * PAGE) as u64);
    Ok(())
}

/// How many pages have a part of a block in them.
fn pages<'a>(blocks: impl Iterator<Item = &'a Block>) -> usize {
    let range = |block: &Block| block.address() / PAGE..=(block.address() + block.bytes() - 1) / PAGE;
    blocks.flat_map(range).collect::<BTreeSet<usize>>().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_counts_once_and_a_block_on_two_pages_counts_for_both() {
        let heap = Heap::of_this_process();
        let block = heap.allocate(2 * PAGE);
        let expected = 2 + usize::from(!block.address().is_multiple_of(PAGE));
        assert_eq!(pages([&block, &block].into_iter()), expected);
        heap.free(block);
    }
}
