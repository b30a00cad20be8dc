//! The heap's memory before and after frees, while the program is idle.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use crate::heap::{Block, PAGE};
use crate::notes::Notes;
use crate::resident::Resident;

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

/// The resident memory of the heap alone: what the process has more than when this was made.
pub struct HeapMemory {
    resident: Resident,
    before: u64,
}

impl HeapMemory {
    /// Starts to measure.
    ///
    /// # Errors
    /// A description, where the kernel does not report resident memory.
    pub fn open() -> Result<HeapMemory, String> {
        let resident = Resident::open()?;
        let before = resident.anonymous().ok_or_else(unknown)?;
        Ok(HeapMemory { resident, before })
    }

    /// Returns the resident bytes.
    ///
    /// # Errors
    /// As [`HeapMemory::open`].
    pub fn bytes(&self) -> Result<u64, String> {
        Ok(self.resident.anonymous().ok_or_else(unknown)?.saturating_sub(self.before))
    }

    /// Adds the samples of two seconds in which nothing is allocated, and the pages of the blocks that are `left`.
    ///
    /// # Errors
    /// As [`HeapMemory::open`].
    pub fn sample<'b>(self, left: impl Iterator<Item = &'b Block>, notes: &mut Notes) -> Result<(), String> {
        // Nothing is allocated from here until the last sample.
        let mut passed = 0;
        let mut samples = [0; SAMPLES.len()];
        for (sample, (milliseconds, _)) in samples.iter_mut().zip(SAMPLES) {
            thread::sleep(Duration::from_millis(milliseconds - passed));
            (*sample, passed) = (self.bytes()?, milliseconds);
        }
        samples.into_iter().zip(SAMPLES).for_each(|(sample, (_, name))| notes.add(name, sample));
        notes.add(LIVE_PAGES, (pages(left) * PAGE) as u64);
        Ok(())
    }
}

fn unknown() -> String {
    "the kernel does not report resident memory".to_owned()
}

/// Returns the number of pages that overlap a block.
fn pages<'a>(blocks: impl Iterator<Item = &'a Block>) -> usize {
    let range = |block: &Block| block.address() / PAGE..=(block.address() + block.bytes() - 1) / PAGE;
    blocks.flat_map(range).collect::<BTreeSet<usize>>().len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::Heap;

    #[test]
    fn each_page_that_overlaps_a_block_counts_once() {
        let heap = Heap::of_this_process();
        let block = heap.allocate(2 * PAGE);
        let expected = 2 + usize::from(!block.address().is_multiple_of(PAGE));
        assert_eq!(pages([&block, &block].into_iter()), expected);
        heap.free(block);
    }
}
