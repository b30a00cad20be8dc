//! How long the others wait when a process dies with the lock of a large heap.

use std::time::{Duration, Instant};

use fastrand::Rng;
use heapwright_shared::{Place, PolicyKind, Settings, SharedHeap};

use crate::route::Route;
use crate::victim::{Step, Victim};
use crate::words;

const SIZE: usize = 256 << 20;
const BLOCKS: usize = 1_000_000;
/// At how many places in the operation the holder is killed.
pub const MOMENTS: usize = 20;

/// The longest and the median wait for an operation after the holder of the lock was killed, in a heap of 256 MiB with
/// a million blocks; and how many of the kills left the lock held.
pub struct RecoveryTime {
    pub longest: Duration,
    pub median: Duration,
    pub recoveries: u64,
}

/// Measures under one policy.
pub fn measure(policy: PolicyKind, place: &Place) -> Result<RecoveryTime, String> {
    drop(SharedHeap::unlink(place));
    let settings = Settings { size: SIZE, policy, ..Settings::default() };
    let heap = SharedHeap::create(place, &settings).map_err(words("create"))?;
    fill_with_blocks(&heap)?;
    let total = instructions(place)?;
    let mut waits = Vec::new();
    let before = heap.recoveries().map_err(words("recoveries"))?;
    for moment in 1..=MOMENTS {
        let victim = victim(place)?;
        victim.follow(Route { anchor: None, steps: total * moment / (MOMENTS + 1) })?;
        drop(victim);
        let start = Instant::now();
        let block = heap.allocate(64).map_err(words("allocate"))?;
        waits.push(start.elapsed());
        heap.deallocate(block).map_err(words("deallocate"))?;
    }
    heap.check().map_err(words("check"))?;
    waits.sort();
    let recoveries = heap.recoveries().map_err(words("recoveries"))? - before;
    Ok(RecoveryTime { longest: waits[MOMENTS - 1], median: waits[MOMENTS / 2], recoveries })
}

/// Blocks of up to 256 bytes, a million of which are used and some tens of thousands are holes between them.
fn fill_with_blocks(heap: &SharedHeap) -> Result<(), String> {
    let mut rng = Rng::with_seed(7);
    let mut holes = Vec::new();
    for number in 0..BLOCKS + BLOCKS / 20 {
        let block = heap.allocate(rng.usize(1..=256)).map_err(words("allocate"))?;
        if number % 21 == 0 {
            holes.push(block);
        }
    }
    holes.into_iter().try_for_each(|hole| heap.deallocate(hole)).map_err(words("deallocate"))
}

fn victim(place: &Place) -> Result<Victim, String> {
    Victim::start(
        || SharedHeap::open(place).map_err(words("open")),
        |heap| heap.allocate(200).map(drop).map_err(words("allocate")),
    )
}

fn instructions(place: &Place) -> Result<usize, String> {
    let victim = victim(place)?;
    let mut count = 0;
    while victim.step()? == Step::Done {
        count += 1;
    }
    Ok(count)
}
