//! One block of one size, allocated and freed.

use super::super::probe::{Blind, Probe};
use super::super::subject::{OPERATIONS_PER_LOOK, Stage, Stop};
use super::script::Script;

/// Number of pairs in a round.
const PAIRS: usize = 50_000;

/// Allocates and frees a block of `bytes` bytes. Another block stays live, so that the heap is never empty.
pub struct Pair {
    bytes: usize,
}

/// Allocates a block and frees it, `pairs` times.
pub fn repeat(stage: &mut Stage, probe: &mut impl Probe, bytes: usize, pairs: usize) -> Result<(), Stop> {
    for from in (0..pairs).step_by(OPERATIONS_PER_LOOK) {
        stage.look_at_time()?;
        for _ in from..pairs.min(from + OPERATIONS_PER_LOOK) {
            let block = stage.allocate(probe, bytes)?;
            stage.free(probe, block, bytes);
        }
    }
    Ok(())
}

impl Script for Pair {
    fn settle(size: usize, stage: &mut Stage) -> Result<Pair, Stop> {
        stage.allocate(&mut Blind, size)?;
        Ok(Pair { bytes: size })
    }

    fn run<P: Probe>(&mut self, stage: &mut Stage, probe: &mut P) -> Result<(), Stop> {
        repeat(stage, &mut Blind, self.bytes, PAIRS / 50)?;
        probe.part("pair", 2 * PAIRS as u64, |probe| repeat(stage, probe, self.bytes, PAIRS))
    }
}
