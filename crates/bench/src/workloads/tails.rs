//! Times single calls among many live blocks: a random block is replaced, and a part of the old ones is freed by
//! another thread.

use std::array;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use fastrand::Rng;

use crate::heap::{Block, Heap};
use crate::notes::Notes;
use crate::setup::{Setup, draw, log_uniform};

/// The name of the line with the time, in nanoseconds, that 999 of 1,000 calls stay below.
pub const SLOW_CALL: &str = "slow_call_ns";

/// The number of live blocks of all threads together, and of replacements.
const LIVE: usize = 1_000_000;
const REPLACED: usize = 4_000_000;

/// Of as many replacements one hands the old block to another thread.
const HANDED: usize = 5;

/// Places in which blocks wait for another thread.
const PLACES: usize = 1024;

/// Blocks on their way from any thread to any other.
type Places = [Mutex<Option<Block>>; PLACES];

/// Who frees the blocks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Freed {
    /// The thread that allocated them.
    ByOwner,
    /// Another thread, a fifth of them.
    ByOthers,
}

/// Runs `threads` threads, each with its share of the live blocks.
pub fn run(setup: &Setup, notes: &mut Notes, threads: usize, freed: Freed) -> Result<(), String> {
    let (live, replaced) = (setup.times(LIVE) / threads, setup.times(REPLACED) / threads);
    let sizes = log_uniform(16, 4096);
    let places: Places = array::from_fn(|_| Mutex::new(None));
    let durations = thread::scope(|scope| {
        let replace = |seed| {
            let (sizes, places) = (&sizes, &places);
            scope.spawn(move || replace(live, replaced, sizes, places, freed, Rng::with_seed(seed)))
        };
        let running: Vec<_> = (0..threads as u64).map(replace).collect();
        let ended: Vec<_> = running.into_iter().filter_map(|thread| thread.join().ok()).collect();
        ended.into_iter().fold(Durations::new(), Durations::with)
    });
    let heap = Heap::of_this_process();
    places.into_iter().filter_map(|place| place.into_inner().ok()?).for_each(|block| heap.free(block));
    notes.add(SLOW_CALL, durations.below_which(0.999));
    Ok(())
}

/// Replaces random blocks; returns how long the calls took.
fn replace(live: usize, replaced: usize, sizes: &[u32], places: &Places, freed: Freed, mut rng: Rng) -> Durations {
    let (heap, mut durations) = (Heap::of_this_process(), Durations::new());
    let mut blocks: Vec<Block> = (0..live).map(|_| heap.allocate(draw(sizes, &mut rng))).collect();
    for number in 0..replaced {
        let (at, bytes) = (rng.usize(..live), draw(sizes, &mut rng));
        let mut block = durations.time(|| heap.reserve(bytes));
        block.write(0, 1);
        block.write(bytes - 1, 1);
        let old = std::mem::replace(&mut blocks[at], block);
        let old = match freed {
            Freed::ByOthers if number % HANDED == 0 => exchange(&places[rng.usize(..PLACES)], old),
            _ => Some(old),
        };
        if let Some(old) = old {
            durations.time(|| heap.free(old));
        }
    }
    blocks.into_iter().for_each(|block| heap.free(block));
    durations
}

/// Puts a block into a place; returns the one that was there, mostly another thread's.
fn exchange(place: &Mutex<Option<Block>>, block: Block) -> Option<Block> {
    place.lock().ok()?.replace(block)
}

/// How many calls took how long: a count for each [`Durations::STEP`] nanoseconds.
struct Durations {
    counts: Vec<u32>,
}

impl Durations {
    /// In nanoseconds.
    const STEP: usize = 8;
    /// Longer durations than half a millisecond are counted as this.
    const STEPS: usize = 1 << 16;

    fn new() -> Durations {
        Durations { counts: vec![0; Durations::STEPS] }
    }

    /// Counts how long a call takes; what it takes to read the clock is in the figure.
    fn time<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = call();
        let step = start.elapsed().as_nanos() as usize / Durations::STEP;
        self.counts[step.min(Durations::STEPS - 1)] += 1;
        result
    }

    fn with(mut self, others: Durations) -> Durations {
        self.counts.iter_mut().zip(others.counts).for_each(|(count, other)| *count += other);
        self
    }

    /// Returns the duration, in nanoseconds, below which this part of the calls lies.
    fn below_which(&self, part: f64) -> u64 {
        let all: u64 = self.counts.iter().map(|&count| u64::from(count)).sum();
        let mut left = (all as f64 * part) as u64;
        let reaches = |&count: &u32| {
            let is_reached = left <= u64::from(count);
            left = left.saturating_sub(count.into());
            is_reached
        };
        let step = self.counts.iter().position(reaches).unwrap_or(0);
        ((step + 1) * Durations::STEP) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_the_quantiles_of_their_counts() {
        let mut durations = Durations::new();
        durations.counts[2] = 90;
        durations.counts[10] = 9;
        durations.counts[1000] = 1;
        let quantiles = [0.5, 0.9, 0.91, 0.99, 0.995, 1.0].map(|part| durations.below_which(part));
        assert_eq!(quantiles, [24, 24, 88, 88, 88, 8008]);
        assert_eq!(Durations::new().with(durations).below_which(1.0), 8008);
    }
}
