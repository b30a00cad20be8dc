//! The load of a worker: the requests that it makes repeatedly. `boost.cpp` makes the same requests.

use std::ptr;

use anyhow::{Result, bail};

use super::durations::Durations;
use super::task::{Figure, Load, Pattern, Sizes, Touch};
use crate::numbers::Numbers;
use crate::published::heaps::Memory;
use heapwright_host::timer::{Clock, read};

/// Number of different sizes: enough for a smooth distribution, few enough for the first-level cache.
const SIZES: usize = 1024;

/// Number of pairs between two readings of the clock.
const PAIRS_PER_LOOK: usize = 32;

/// Number of times that the whole live set is replaced before the measurement.
const TURNOVERS: usize = 4;

/// A heap under load.
pub struct Work<H> {
    heap: H,
    load: Load,
    sizes: [u32; SIZES],
    numbers: Numbers,
    blocks: Vec<usize>,
    durations: Durations,
}

impl<H: Memory> Work<H> {
    /// Prepares the heap.
    ///
    /// # Errors
    /// When the heap is full.
    pub fn settle(heap: H, load: Load, seed: u64) -> Result<Work<H>> {
        let mut work = Work {
            heap,
            load,
            sizes: sizes(load.sizes),
            numbers: Numbers::seeded(seed),
            blocks: Vec::new(),
            durations: Durations::none(),
        };
        let count = if load.pattern == Pattern::Steady { load.live } else { 1 };
        for _ in 0..count {
            let block = work.allocate()?;
            work.blocks.push(block);
        }
        (0..count * TURNOVERS).try_for_each(|_| work.pair())?;
        Ok(work)
    }

    /// Runs until the wall clock reaches `end`, and returns the number of pairs.
    ///
    /// # Errors
    /// When the heap is full.
    pub fn run_until(&mut self, end: u64) -> Result<u64> {
        self.durations = Durations::none();
        let mut pairs = 0;
        loop {
            match self.load.figure {
                Figure::Mean => (0..PAIRS_PER_LOOK).try_for_each(|_| self.pair())?,
                Figure::Tail => (0..PAIRS_PER_LOOK).try_for_each(|_| self.timed_pair())?,
            }
            pairs += PAIRS_PER_LOOK as u64;
            if read(Clock::Wall) >= end {
                return Ok(pairs);
            }
        }
    }

    /// Returns the nanoseconds within which 99.9 % of the calls of the last run ended; 0 where they were not timed.
    pub fn tail(&self) -> u64 {
        self.durations.tail()
    }

    /// Returns the nanoseconds of the longest call of the last run; 0 where calls were not timed.
    pub fn longest(&self) -> u64 {
        self.durations.longest()
    }

    /// Makes a pair and times both of its calls.
    fn timed_pair(&mut self) -> Result<()> {
        let steady = self.load.pattern == Pattern::Steady;
        let slot = if steady { self.numbers.below(self.blocks.len()) } else { 0 };
        let held = if steady { self.blocks[slot] } else { self.allocate_timed()? };
        let start = read(Clock::Wall);
        self.heap.free(held);
        self.durations.count(read(Clock::Wall) - start);
        if steady {
            self.blocks[slot] = self.allocate_timed()?;
        }
        Ok(())
    }

    fn allocate_timed(&mut self) -> Result<usize> {
        let start = read(Clock::Wall);
        let block = self.allocate()?;
        self.durations.count(read(Clock::Wall) - start);
        Ok(block)
    }

    #[inline(always)]
    fn pair(&mut self) -> Result<()> {
        if self.load.pattern == Pattern::Steady {
            let slot = self.numbers.below(self.blocks.len());
            self.heap.free(self.blocks[slot]);
            self.blocks[slot] = self.allocate()?;
        } else {
            let block = self.allocate()?;
            self.heap.free(block);
        }
        Ok(())
    }

    #[inline(always)]
    fn allocate(&mut self) -> Result<usize> {
        let bytes = self.sizes[self.numbers.below(SIZES)] as usize;
        let Some(block) = self.heap.allocate(bytes) else { bail!("a request of {bytes} bytes failed") };
        if self.load.touch == Touch::Touched {
            // SAFETY: the heap has just returned this block for a request of `bytes` bytes, and no other process uses
            // it.
            unsafe { ptr::write_bytes(self.heap.address(block).as_ptr(), 0x5a, bytes) };
        }
        Ok(block)
    }
}

fn sizes(sizes: Sizes) -> [u32; SIZES] {
    let last = SIZES - 1;
    std::array::from_fn(|step| match sizes {
        Sizes::Small => 16 + (240 * step / last) as u32,
        Sizes::Mixed => (16.0 * (8.0 * step as f64 / last as f64).exp2()) as u32,
        Sizes::Line => 64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::heaps::Malloc;

    #[test]
    fn sizes_are_in_their_ranges() {
        let ranges = [(Sizes::Small, 16, 256, 136), (Sizes::Mixed, 16, 4096, 256), (Sizes::Line, 64, 64, 64)];
        for (kind, from, to, middle) in ranges {
            let sizes = sizes(kind);
            assert_eq!((sizes[0], sizes[SIZES - 1]), (from, to));
            assert!(sizes.is_sorted() && sizes[SIZES / 2].abs_diff(middle) < 2, "{kind:?}: {}", sizes[SIZES / 2]);
        }
    }

    #[test]
    fn work_ends_at_the_given_time_and_keeps_its_live_set() {
        for (pattern, figure) in [
            (Pattern::Steady, Figure::Mean),
            (Pattern::Pair, Figure::Mean),
            (Pattern::Steady, Figure::Tail),
            (Pattern::Pair, Figure::Tail),
        ] {
            let load = Load { pattern, sizes: Sizes::Mixed, touch: Touch::Touched, live: 100, figure };
            let mut work = Work::settle(Malloc, load, 1).unwrap();
            let end = read(Clock::Wall) + 1_000_000;
            let pairs = work.run_until(end).unwrap();
            assert!(pairs >= PAIRS_PER_LOOK as u64 && read(Clock::Wall) >= end);
            assert_eq!(work.tail() > 0, figure == Figure::Tail);
            assert_eq!(work.blocks.len(), if pattern == Pattern::Steady { 100 } else { 1 });
        }
    }
}
