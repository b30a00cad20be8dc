//! Measurements on a heap of a million blocks whose small blocks come from slabs: how long it takes to open, and how
//! long a process cannot allocate while another one dies. And on a small one: how often it needs the lock.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use fastrand::Rng;
use heapwright_host::timer::{Clock, read};
use heapwright_shared::{Place, Settings, SharedHeap, SmallBlocks};

use super::contender::{Contender, WITH_SLABS};
use super::measurement::{Measurement, Name};
use heapwright_workloads::published::heaps::Segment;
use heapwright_workloads::shared::load::Work;
use heapwright_workloads::shared::task::{Figure, Load, Pattern, Sizes, Touch};

/// Number of blocks.
pub const BLOCKS: usize = 1_000_000;
/// How often a segment was opened and closed before opening is timed.
pub const HANDLES: usize = 1000;

/// Bytes of the large heap.
const SIZE: usize = 512 << 20;
/// How often opening is timed.
const OPENINGS: usize = 51;
/// Milliseconds for which a survivor works.
const SURVIVAL: u64 = 30;
/// The load of a survivor, and of the process that dies.
const LOAD: Load =
    Load { pattern: Pattern::Steady, sizes: Sizes::Mixed, touch: Touch::Untouched, live: 1000, figure: Figure::Tail };

/// What happens to the process that works beside a survivor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is killed while the survivor works.
    Killed,
    /// It is killed when the survivor has ended its work.
    Spared,
}

/// A segment with a million blocks, and a handle that keeps it attached.
pub struct Large {
    name: Name,
    place: Place,
    holder: SharedHeap,
}

impl Large {
    /// Makes it and fills it with blocks of 16 to 256 bytes.
    ///
    /// # Errors
    /// When there is no room for it in memory.
    pub fn make() -> Result<Large> {
        let name = Name::own("large");
        let place = Place::new(&name.0)?;
        let settings = Settings { size: SIZE, small: SmallBlocks::Slabs, ..Settings::default() };
        let heap = SharedHeap::create(&place, &settings)?;
        let mut rng = Rng::with_seed(1);
        (0..BLOCKS).try_for_each(|_| heap.allocate(rng.usize(16..=256)).map(drop))?;
        Ok(Large { name, place, holder: heap })
    }

    /// Returns the nanoseconds of each of 51 openings, after the segment was opened and closed a thousand times.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn openings(&self) -> Result<Vec<f64>> {
        (0..HANDLES).try_for_each(|_| SharedHeap::open(&self.place).map(drop))?;
        let timed = (0..OPENINGS).map(|_| {
            let start = read(Clock::Wall);
            let heap = SharedHeap::open(&self.place)?;
            let time = read(Clock::Wall) - start;
            drop(heap);
            Ok(time as f64)
        });
        timed.collect()
    }

    /// Works beside another process, `times` times, and returns the nanoseconds of the longest call of each time.
    ///
    /// # Errors
    /// When the other process cannot be started, or a call fails.
    pub fn survive(&self, fate: Fate, times: usize) -> Result<Vec<f64>> {
        let contender = Contender::all(None).into_iter().find(|contender| contender.subject == WITH_SLABS);
        let contender = contender.context("no contender has slabs")?;
        let mut survivor = Work::settle(Segment::of(SharedHeap::open(&self.place)?), LOAD, 1)?;
        let mut rng = Rng::with_seed(2);
        let longest = (0..times).map(|time| {
            let load = Load { figure: Figure::Mean, ..LOAD };
            let window = (0, SURVIVAL * 1_000_000);
            let seed = time as u64;
            let beside = Measurement { contender: &contender, processes: 1, load, bytes: SIZE, window, seed };
            let mut other = beside.join(&self.name)?;
            let end = beside.begin(&mut other)?.end;
            let moment = match fate {
                Fate::Killed => rng.u64(SURVIVAL / 4..SURVIVAL),
                Fate::Spared => 2 * SURVIVAL,
            };
            let kill = move || {
                thread::sleep(Duration::from_millis(moment));
                drop(other);
            };
            let killer = thread::Builder::new().spawn(kill).context("cannot start a thread that kills")?;
            let worked = survivor.run_until(end);
            killer.join().ok().context("the thread that kills has panicked")?;
            worked?;
            self.holder.reclaim_dead()?;
            Ok(survivor.longest() as f64)
        });
        longest.collect()
    }
}

/// Returns how many blocks and slabs the policy places, which takes the lock, for one block that is allocated in a heap
/// with slabs, in a steady state of `live` blocks of `sizes`.
///
/// # Errors
/// When the heap cannot be made, or is full.
pub fn placed_per_block(sizes: Sizes, live: usize) -> Result<f64> {
    let name = Name::own("placed");
    let place = Place::new(&name.0)?;
    let settings = Settings { size: 64 << 20, small: SmallBlocks::Slabs, granule: 16, ..Settings::default() };
    let heap = SharedHeap::create(&place, &settings)?;
    let load = Load { sizes, live, figure: Figure::Mean, ..LOAD };
    let mut work = Work::settle(Segment::of(SharedHeap::open(&place)?), load, 1)?;
    let before = heap.counters()?;
    work.run_until(read(Clock::Wall) + 200_000_000)?;
    let after = heap.counters()?;
    let placed = (after.reuses + after.grows) - (before.reuses + before.grows);
    Ok(placed as f64 / (after.mallocs - before.mallocs) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slab_is_placed_for_many_blocks() {
        let small = placed_per_block(Sizes::Small, 100).unwrap();
        assert!(small < 0.1, "{small}");
    }
}
