//! A live set of constant size and log-uniform block sizes.

use super::super::numbers::Numbers;
use super::super::probe::{Blind, Probe};
use super::super::subject::{OPERATIONS_PER_LOOK, Stage, Stop};
use super::script::{Script, table};
use heapwright_host::lazy::Lazy;

/// The mean of the sizes, in bytes: log-uniform from 16 bytes to 4 KiB.
pub const MEAN_BYTES: usize = 740;

/// Number of times that the whole live set is replaced before the measurement.
const TURNOVERS: usize = 4;

/// Number of blocks replaced in a round.
const PAIRS: usize = 100_000;

/// Number of different sizes: enough for a smooth distribution, few enough for the first-level cache.
const SIZES: usize = 1024;

/// `size` live blocks; a random one is freed and one of another random size allocated.
pub struct Steady {
    blocks: Lazy<usize>,
    bytes: Lazy<u32>,
    sizes: [u32; SIZES],
    numbers: Numbers,
}

fn log_uniform_sizes() -> [u32; SIZES] {
    let octaves = (4096f64 / 16.0).log2();
    std::array::from_fn(|step| (16.0 * (octaves * step as f64 / (SIZES - 1) as f64).exp2()) as u32)
}

impl Steady {
    #[inline(always)]
    fn draw_size(&mut self) -> u32 {
        self.sizes[self.numbers.below(SIZES)]
    }

    #[inline(always)]
    fn replace(&mut self, stage: &mut Stage, probe: &mut impl Probe) -> Result<(), Stop> {
        let slot = self.numbers.below(self.blocks.len());
        let bytes = self.draw_size();
        stage.free(probe, self.blocks[slot], self.bytes[slot] as usize);
        self.blocks[slot] = stage.allocate(probe, bytes as usize)?;
        self.bytes[slot] = bytes;
        Ok(())
    }

    fn replace_many(&mut self, stage: &mut Stage, probe: &mut impl Probe, pairs: usize) -> Result<(), Stop> {
        for from in (0..pairs).step_by(OPERATIONS_PER_LOOK) {
            stage.look_at_time()?;
            for _ in from..pairs.min(from + OPERATIONS_PER_LOOK) {
                self.replace(stage, probe)?;
            }
        }
        Ok(())
    }
}

impl Script for Steady {
    fn settle(size: usize, stage: &mut Stage) -> Result<Steady, Stop> {
        let mut steady = Steady {
            blocks: table(size)?,
            bytes: table(size)?,
            sizes: log_uniform_sizes(),
            numbers: Numbers::seeded(1),
        };
        for slot in 0..size {
            if slot % OPERATIONS_PER_LOOK == 0 {
                stage.look_at_time()?;
            }
            steady.bytes[slot] = steady.draw_size();
            steady.blocks[slot] = stage.allocate(&mut Blind, steady.bytes[slot] as usize)?;
        }
        steady.replace_many(stage, &mut Blind, size * TURNOVERS)?;
        Ok(steady)
    }

    fn run<P: Probe>(&mut self, stage: &mut Stage, probe: &mut P) -> Result<(), Stop> {
        // The rounds of other workers have evicted this one's data from the caches: warm them up first.
        self.replace_many(stage, &mut Blind, PAIRS / 8)?;
        probe.part("pair", 2 * PAIRS as u64, |probe| self.replace_many(stage, probe, PAIRS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_log_uniform_with_the_mean_that_is_claimed() {
        let sizes = log_uniform_sizes();
        assert_eq!((sizes[0], sizes[SIZES - 1]), (16, 4096));
        assert_eq!(sizes.iter().filter(|&&bytes| bytes < 256).count(), SIZES / 2);
        let mean = sizes.iter().map(|&bytes| f64::from(bytes)).sum::<f64>() / SIZES as f64;
        assert!((mean - MEAN_BYTES as f64).abs() < 10.0, "{mean}");
    }
}
