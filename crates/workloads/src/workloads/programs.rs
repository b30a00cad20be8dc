//! The programs of the published reports, each on a fresh heap.

use super::super::probe::Probe;
use super::super::published::GnuRandom;
use super::super::subject::{OPERATIONS_PER_LOOK, Stage, Stop};
use super::pair;
use super::script::{Script, table};
use heapwright_host::lazy::Lazy;

/// Maximal live bytes and blocks of report 000's program.
pub const DEMAND_000: (usize, usize) = (180 << 20, 100_001);
/// Maximal live bytes and blocks of report 001's program.
pub const DEMAND_001: (usize, usize) = (100_000 * 4096, 100_000);
/// The block of report 004's program, in bytes.
pub const BYTES_004: usize = 128;

/// Allocates `count` blocks of `bytes(i)` bytes into `blocks`, from its beginning.
fn allocate_all(
    stage: &mut Stage,
    probe: &mut impl Probe,
    blocks: &mut [usize],
    bytes: impl Fn(usize) -> usize,
) -> Result<(), Stop> {
    for (at, block) in blocks.iter_mut().enumerate() {
        if at % OPERATIONS_PER_LOOK == 0 {
            stage.look_at_time()?;
        }
        *block = stage.allocate(probe, bytes(at))?;
    }
    Ok(())
}

/// Report 000: 50,000 blocks of mixed sizes, about 20,000 of them freed, 50,000 blocks of one size.
pub struct Program000 {
    sizes: Lazy<u32>,
    /// Which blocks are freed: the first `frees` of these.
    freed: Lazy<u32>,
    frees: usize,
    blocks: Lazy<usize>,
}

impl Program000 {
    /// Number of blocks in each of the two phases.
    const BLOCKS: usize = 50_000;
    /// The size in the second phase, and of the buffer that the C library allocates for the terminal.
    const BYTES: usize = 1024;
}

impl Script for Program000 {
    /// Draws the program's random numbers in advance, from the GNU C library's generator, as the program does.
    fn settle(_size: usize, _stage: &mut Stage) -> Result<Program000, Stop> {
        let mut random = GnuRandom::seeded(0);
        let mut sizes = table(Self::BLOCKS)?;
        for size in sizes.iter_mut() {
            *size = if random.draw() % 10 < 4 { Self::BYTES as u32 } else { random.draw() % 5120 + 1024 };
        }
        let mut freed = table(Self::BLOCKS)?;
        let mut frees = 0;
        for block in (0..Self::BLOCKS as u32).filter(|_| random.draw() % 10 + 1 > 6) {
            freed[frees] = block;
            frees += 1;
        }
        Ok(Program000 { sizes, freed, frees, blocks: table(2 * Self::BLOCKS + 1)? })
    }

    fn run<P: Probe>(&mut self, stage: &mut Stage, probe: &mut P) -> Result<(), Stop> {
        let Program000 { sizes, freed, frees, blocks } = self;
        let freed = &freed[..*frees];
        let (first, second) = blocks.split_at_mut(Self::BLOCKS);
        let operations = first.len() + freed.len() + second.len();
        probe.part("program", operations as u64, |probe| {
            allocate_all(stage, probe, first, |at| sizes[at] as usize)?;
            for &at in freed {
                stage.free(probe, first[at as usize], sizes[at as usize] as usize);
            }
            allocate_all(stage, probe, second, |_| Self::BYTES)
        })
    }
}

/// Report 001: many small blocks, many large blocks, and one block repeatedly.
pub struct Program001 {
    blocks: Lazy<usize>,
}

impl Program001 {
    const SMALL: (usize, usize) = (10_000, 16);
    const LARGE: (usize, usize) = (100_000, 4096);
    const PAIRS: usize = 1000;

    fn fill_and_empty(
        &mut self,
        stage: &mut Stage,
        probe: &mut impl Probe,
        (count, bytes): (usize, usize),
        [allocate, free]: [&'static str; 2],
    ) -> Result<(), Stop> {
        let blocks = &mut self.blocks[..count];
        probe.part(allocate, count as u64, |probe| allocate_all(stage, probe, blocks, |_| bytes))?;
        probe.part(free, count as u64, |probe| blocks.iter().for_each(|&block| stage.free(probe, block, bytes)));
        stage.look_at_time()
    }
}

impl Script for Program001 {
    fn settle(_size: usize, _stage: &mut Stage) -> Result<Program001, Stop> {
        Ok(Program001 { blocks: table(Self::LARGE.0)? })
    }

    fn run<P: Probe>(&mut self, stage: &mut Stage, probe: &mut P) -> Result<(), Stop> {
        self.fill_and_empty(stage, probe, Self::SMALL, ["allocate 16", "free 16"])?;
        self.fill_and_empty(stage, probe, Self::LARGE, ["allocate 4096", "free 4096"])?;
        // The report does not give the size: this is the size of the preceding test.
        let bytes = Self::LARGE.1;
        probe.part("pair", 2 * Self::PAIRS as u64, |probe| pair::repeat(stage, probe, bytes, Self::PAIRS))
    }
}

/// Report 004: one block of 128 bytes, allocated and freed 10,000 times.
pub struct Program004;

impl Script for Program004 {
    fn settle(_size: usize, _stage: &mut Stage) -> Result<Program004, Stop> {
        Ok(Program004)
    }

    fn run<P: Probe>(&mut self, stage: &mut Stage, probe: &mut P) -> Result<(), Stop> {
        const PAIRS: usize = 10_000;
        probe.part("pair", 2 * PAIRS as u64, |probe| pair::repeat(stage, probe, BYTES_004, PAIRS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::Touch;
    use crate::subjects::Implementation;
    use std::time::Duration;

    #[test]
    fn report_000_frees_and_requests_what_it_published() {
        let subject = Implementation::NoOp.build(0).unwrap();
        let mut stage = Stage::new(subject, Touch::Nothing, Duration::from_secs(60));
        let program = Program000::settle(0, &mut stage).unwrap();
        assert_eq!(program.frees, 19_958);
        let rounded: u64 = program.sizes.iter().map(|&bytes| u64::from(bytes.next_multiple_of(4))).sum();
        assert_eq!(rounded + 50_001 * 1024, 179_258_508);
    }

    #[test]
    fn programs_drawn_at_the_same_time_do_not_disturb_each_other() {
        let draw = || {
            let mut stage = Stage::new(Implementation::NoOp.build(0).unwrap(), Touch::Nothing, Duration::from_secs(60));
            Program000::settle(0, &mut stage).unwrap().frees
        };
        std::thread::scope(|threads| {
            let drawn: Vec<_> = (0..8).map(|_| threads.spawn(draw)).collect();
            for program in drawn {
                assert_eq!(program.join().unwrap(), 19_958);
            }
        });
    }
}
