//! The programs of the published reports, always at full length. Random numbers and tables of blocks are prepared
//! before the measurement starts.

use std::hint::black_box;

use crate::heap::{Block, Heap};
use crate::notes::Notes;
use crate::setup::Setup;
use crate::stopwatch::{CPU, ELAPSED, Stopwatch};

/// Whether a program writes to its blocks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Touch {
    /// Never, as published.
    Nothing,
    /// A byte to each page.
    Pages,
}

/// The number of blocks of each half of the program of report 000, and the size of most of them in bytes.
const BLOCKS: usize = 50_000;
const COMMON: usize = 1024;

/// The random numbers that the program of report 000 draws from the C library.
struct Draws {
    sizes: Vec<usize>,
    freed: Vec<bool>,
}

impl Draws {
    fn of_report() -> Draws {
        // SAFETY: `srand` must not run at the same time as `rand` in another thread, and no other thread calls either.
        unsafe { libc::srand(0) };
        // SAFETY: `rand` must not run at the same time in another thread, and no other thread calls it.
        let draw = |below: i32| unsafe { libc::rand() } % below;
        let sizes = (0..BLOCKS).map(|_| if draw(10) < 4 { COMMON } else { draw(5120) as usize + COMMON }).collect();
        let freed = (0..BLOCKS).map(|_| draw(10) >= 6).collect();
        Draws { sizes, freed }
    }
}

/// Report 000: 50,000 blocks of 1 to 6 KiB, two in five freed, 50,000 blocks of 1 KiB, and an output buffer at the end.
pub fn program_000(_: &Setup, notes: &mut Notes, touch: Touch) -> Result<(), String> {
    let (heap, draws) = (Heap::of_this_process(), Draws::of_report());
    let (mut first, mut second) = (table(BLOCKS), table(BLOCKS + 1));
    let watch = Stopwatch::start();
    fill(heap, &mut first, touch, |at| draws.sizes[at]);
    for (block, _) in first.iter_mut().zip(&draws.freed).filter(|(_, freed)| **freed) {
        block.take().into_iter().for_each(|block| heap.free(block));
    }
    fill(heap, &mut second, touch, |_| COMMON);
    let (cpu, elapsed) = watch.read();
    notes.add(CPU, cpu);
    notes.add(ELAPSED, elapsed);
    [first, second].into_iter().flatten().flatten().for_each(|block| heap.free(block));
    Ok(())
}

/// The sections of the program of report 001.
pub const PARTS_001: [&str; 5] = ["allocate-16", "free-16", "allocate-4096", "free-4096", "pair-4096"];

/// Report 001: allocates and then frees 10,000 small blocks, then 100,000 large ones, then makes 1,000 pairs of a large
/// one.
pub fn program_001(_: &Setup, notes: &mut Notes) -> Result<(), String> {
    let heap = Heap::of_this_process();
    let [allocate_small, free_small, allocate_large, free_large, pairs] = PARTS_001;
    for (count, bytes, allocate, free) in
        [(10_000, 16, allocate_small, free_small), (100_000, 4096, allocate_large, free_large)]
    {
        let mut blocks = table(count);
        timed(notes, allocate, || fill(heap, &mut blocks, Touch::Nothing, |_| bytes));
        timed(notes, free, || blocks.iter_mut().filter_map(Option::take).for_each(|block| heap.free(block)));
    }
    timed(notes, pairs, || (0..1_000).for_each(|_| heap.free(black_box(heap.reserve(4096)))));
    Ok(())
}

/// Returns a table for `count` blocks, with its pages resident.
fn table(count: usize) -> Vec<Option<Block>> {
    let mut table: Vec<Option<Block>> = Vec::with_capacity(count);
    table.resize_with(count, || black_box(None));
    table
}

fn fill(heap: Heap, blocks: &mut [Option<Block>], touch: Touch, bytes: impl Fn(usize) -> usize) {
    for (at, place) in blocks.iter_mut().enumerate() {
        let mut block = heap.reserve(bytes(at));
        if touch == Touch::Pages {
            block.touch_pages(0);
        }
        *place = Some(block);
    }
}

/// Adds the processor time of a section to the figures.
fn timed(notes: &mut Notes, part: &'static str, work: impl FnOnce()) {
    let watch = Stopwatch::start();
    work();
    notes.add(part, watch.read().0);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Report 000 printed the number of freed blocks, and the requested bytes rounded up to multiples of four.
    #[test]
    fn report_000_has_the_published_counts() {
        let draws = Draws::of_report();
        assert_eq!(draws.freed.iter().filter(|freed| **freed).count(), 19_958);
        let rounded: usize = draws.sizes.iter().map(|bytes| bytes.next_multiple_of(4)).sum();
        assert_eq!(rounded + (BLOCKS + 1) * COMMON, 179_258_508);
    }
}
