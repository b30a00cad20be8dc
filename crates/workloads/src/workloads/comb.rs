//! Isolated holes: blocks of one size, every other one of which is free.

use super::super::numbers::Numbers;
use super::super::probe::{Blind, Probe};
use super::super::subject::{OPERATIONS_PER_LOOK, Stage, Stop};
use super::script::{Script, table};
use heapwright_host::lazy::Lazy;

/// The size of the blocks and thus of the holes, in bytes.
pub const TOOTH: usize = 64;

/// Number of misses in a round, and the minimal number of frees and fills.
const OPERATIONS: usize = 50_000;

/// `size` blocks of one size that stay live, each next to a block that is freed and allocated again.
pub struct Comb {
    loose: Lazy<usize>,
    numbers: Numbers,
}

impl Comb {
    /// The live blocks; those that are freed and allocated again are in the order of their allocation.
    fn grow(holes: usize, stage: &mut Stage) -> Result<Comb, Stop> {
        let mut comb = Comb { loose: table(holes)?, numbers: Numbers::seeded(2) };
        for slot in 0..holes {
            if slot % OPERATIONS_PER_LOOK == 0 {
                stage.look_at_time()?;
            }
            comb.loose[slot] = stage.allocate(&mut Blind, TOOTH)?;
            stage.allocate(&mut Blind, TOOTH)?;
        }
        Ok(comb)
    }

    fn free_loose(&mut self, stage: &mut Stage, probe: &mut impl Probe) -> Result<(), Stop> {
        for some in self.loose.chunks(OPERATIONS_PER_LOOK) {
            stage.look_at_time()?;
            some.iter().for_each(|&block| stage.free(probe, block, TOOTH));
        }
        Ok(())
    }

    fn fill_holes(&mut self, stage: &mut Stage, probe: &mut impl Probe) -> Result<(), Stop> {
        for some in self.loose.chunks_mut(OPERATIONS_PER_LOOK) {
            stage.look_at_time()?;
            for block in some {
                *block = stage.allocate(probe, TOOTH)?;
            }
        }
        Ok(())
    }

    /// Allocates blocks that fit none of the holes, and frees them immediately.
    fn miss_holes(&mut self, stage: &mut Stage, probe: &mut impl Probe) -> Result<(), Stop> {
        for from in (0..OPERATIONS).step_by(OPERATIONS_PER_LOOK) {
            stage.look_at_time()?;
            for _ in from..OPERATIONS.min(from + OPERATIONS_PER_LOOK) {
                let block = stage.allocate(probe, 2 * TOOTH)?;
                stage.free(probe, block, 2 * TOOTH);
            }
        }
        Ok(())
    }
}

impl Script for Comb {
    fn settle(size: usize, stage: &mut Stage) -> Result<Comb, Stop> {
        let mut comb = Comb::grow(size, stage)?;
        comb.numbers.shuffle(&mut comb.loose);
        // One round in advance, so that the first measured round starts in the same state as all others.
        comb.free_loose(stage, &mut Blind)?;
        comb.fill_holes(stage, &mut Blind)?;
        comb.numbers.shuffle(&mut comb.loose);
        Ok(comb)
    }

    fn run<P: Probe>(&mut self, stage: &mut Stage, probe: &mut P) -> Result<(), Stop> {
        let holes = self.loose.len() as u64;
        let times = OPERATIONS.div_ceil(self.loose.len().max(1));
        for time in 1..=times {
            probe.part("free", holes, |probe| self.free_loose(stage, probe))?;
            if time == times {
                self.miss_holes(stage, &mut Blind)?;
                probe.part("miss", 2 * OPERATIONS as u64, |probe| self.miss_holes(stage, probe))?;
            }
            probe.part("fill", holes, |probe| self.fill_holes(stage, probe))?;
            self.numbers.shuffle(&mut self.loose);
        }
        Ok(())
    }
}

/// A comb of `size` holes in which a few blocks are allocated and freed again. Measures the cost of a free among many
/// holes of its own size, none of which is its buddy. The holes are created in address order, which favours allocators
/// that walk lists: in random order, every step would be a cache miss.
pub struct BuddyFree {
    few: Lazy<usize>,
    numbers: Numbers,
}

impl BuddyFree {
    /// Number of blocks freed at a time, few compared with the holes.
    const FEW: usize = 64;
    /// Number of times that they are freed in a round.
    const TIMES: usize = 32;
}

impl Script for BuddyFree {
    fn settle(size: usize, stage: &mut Stage) -> Result<BuddyFree, Stop> {
        let mut comb = Comb::grow(size, stage)?;
        comb.free_loose(stage, &mut Blind)?;
        Ok(BuddyFree { few: table(Self::FEW)?, numbers: comb.numbers })
    }

    fn run<P: Probe>(&mut self, stage: &mut Stage, probe: &mut P) -> Result<(), Stop> {
        for _ in 0..Self::TIMES {
            for block in self.few.iter_mut() {
                *block = stage.allocate(&mut Blind, TOOTH)?;
            }
            self.numbers.shuffle(&mut self.few);
            probe.part("free", Self::FEW as u64, |probe| {
                self.few.iter().try_for_each(|&block| {
                    stage.free(probe, block, TOOTH);
                    Ok(())
                })
            })?;
            stage.look_at_time()?;
        }
        Ok(())
    }
}
