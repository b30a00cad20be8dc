//! Isolated holes: blocks of one size of which every other one is free.

use super::super::lazy::Lazy;
use super::super::numbers::Numbers;
use super::super::probe::{Blind, Probe};
use super::super::subject::{OPERATIONS_PER_LOOK, Stage, Stop};
use super::{Script, book};

/// The size of the blocks and thus of the holes, in bytes.
pub const TOOTH: usize = 64;

/// Misses in a round, and the least number of frees and fills.
const OPERATIONS: usize = 50_000;

/// `size` used blocks of one size, each beside a block that comes and goes.
pub struct Comb {
    loose: Lazy<usize>,
    numbers: Numbers,
}

impl Comb {
    /// All blocks in use, those that come and go in the order in which they were allocated.
    fn grow(holes: usize, stage: &mut Stage) -> Result<Comb, Stop> {
        let mut comb = Comb { loose: book(holes)?, numbers: Numbers::seeded(2) };
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

    /// Requests that none of the holes can serve, freed at once.
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
        // Once around, so that the first round finds what every other one finds.
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

/// A comb of `size` holes in which a few blocks are allocated and freed again: what a free costs beside many holes of
/// its own size, none of which is its buddy. The holes are made in the order of their addresses, which spares those who
/// walk lists the worst: in random order, every step of theirs is a cache miss.
pub struct BuddyFree {
    few: Lazy<usize>,
    numbers: Numbers,
}

impl BuddyFree {
    /// Blocks freed at a time, few beside the holes.
    const FEW: usize = 64;
    /// Times that they are freed in a round.
    const TIMES: usize = 32;
}

impl Script for BuddyFree {
    fn settle(size: usize, stage: &mut Stage) -> Result<BuddyFree, Stop> {
        let mut comb = Comb::grow(size, stage)?;
        comb.free_loose(stage, &mut Blind)?;
        Ok(BuddyFree { few: book(Self::FEW)?, numbers: comb.numbers })
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
