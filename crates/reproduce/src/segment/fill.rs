//! A run of report 002's first experiment: random requests fill a segment until one fails.

use anyhow::Result;
use heapwright_placement::{Buddy, Engine, Generator, Rules, Statistics};

/// The report's segment, in bytes.
pub const SEGMENT: usize = 256 << 10;

/// The shortest request, in bytes.
pub const SHORTEST: usize = 128;

/// The format of a segment's blocks. The lengths are powers of two in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// Bytes in front of a block's payload.
    pub header: usize,
    /// The shortest block, in bytes.
    pub granule: usize,
}

impl Blocks {
    /// The report's: each block has a header of 16 bytes.
    pub const PUBLISHED: Blocks = Blocks { header: 16, granule: 16 };

    /// Those of a `SharedHeap`, whose metadata is outside the blocks.
    pub const WITHOUT_HEADER: Blocks = Blocks { header: 0, granule: SHORTEST };

    fn rules(self) -> Rules {
        Rules {
            granule: self.granule as u32,
            header: self.header as u32,
            statistics: Statistics::Off,
            ..Rules::default()
        }
    }
}

/// Which blocks are freed during a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frees {
    /// None.
    Nothing,
    /// 100 of 101 blocks, immediately after their allocation, as the report's code does.
    TheBlockItself,
    /// As often, but a random live block: another reading of the report's text.
    AnyBlock,
}

/// The report draws a number from 0 to 100 and frees unless it is 0.
pub const DRAWS_PER_FREE: usize = 101;

/// The parameters of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// The blocks of the segment.
    pub blocks: Blocks,
    /// The longest request, in bytes; all sizes from [`SHORTEST`] to it are equally likely.
    pub longest: usize,
    /// Which blocks are freed.
    pub frees: Frees,
}

/// The live blocks when the first request fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// The requested bytes.
    pub user: usize,
    /// The lengths of the blocks, headers included.
    pub real: usize,
}

impl Full {
    /// Returns the four figures of the report's tables: both sums in bytes, then the internal fragmentation of the
    /// blocks and the share of the segment that is not payload, in per cent.
    pub fn figures(self) -> [f64; 4] {
        figures(self.user as f64, self.real as f64)
    }
}

/// Computes [`Full::figures`] from the two sums.
pub fn figures(user: f64, real: f64) -> [f64; 4] {
    [user, real, (1.0 - user / real) * 100.0, (1.0 - user / SEGMENT as f64) * 100.0]
}

/// A live block.
struct Live {
    offset: usize,
    user: usize,
    real: usize,
}

impl Fill {
    /// Performs the run with the random numbers of `seed`.
    ///
    /// # Errors
    /// When the engine refuses the rules or one of its own blocks.
    pub fn run(self, seed: u64) -> Result<Full> {
        let rules = self.blocks.rules();
        let mut metadata = vec![0; Buddy::metadata_cells(SEGMENT, &rules)?];
        let mut segment = Buddy::create(&mut metadata, SEGMENT, &rules)?;
        let mut state = seed;
        let mut random = Generator(&mut state);
        let mut live: Vec<Live> = Vec::new();
        loop {
            let user = SHORTEST + random.below(self.longest - SHORTEST + 1);
            let Ok(offset) = segment.allocate(user, 1) else { break };
            let real = segment.usable_size(offset).unwrap_or(0) + self.blocks.header;
            live.push(Live { offset, user, real });
            if let Some(goes) = self.goes(&mut random, live.len()) {
                segment.deallocate(live.swap_remove(goes).offset)?;
            }
        }
        Ok(Full { user: live.iter().map(|block| block.user).sum(), real: live.iter().map(|block| block.real).sum() })
    }

    /// Returns the live block to free now, if any. The block allocated last is the last one.
    fn goes(self, random: &mut Generator<'_>, live: usize) -> Option<usize> {
        if self.frees == Frees::Nothing || random.below(DRAWS_PER_FREE) == 0 {
            return None;
        }
        Some(if self.frees == Frees::AnyBlock { random.below(live) } else { live - 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_segment_has_no_room_for_the_longest_request() {
        for blocks in [Blocks::PUBLISHED, Blocks::WITHOUT_HEADER] {
            for frees in [Frees::Nothing, Frees::TheBlockItself] {
                let full = Fill { blocks, longest: 4096, frees }.run(1).unwrap();
                assert!(full.user < full.real && full.real <= SEGMENT, "{full:?}");
                assert!(SEGMENT - full.real < 8192, "a segment without scattered holes is used to its end: {full:?}");
            }
        }
    }

    #[test]
    fn blocks_are_as_long_as_the_report_says() {
        // 240 bytes and the header are 256, one more is 512.
        let only = |blocks, bytes| Fill { blocks, longest: bytes, frees: Frees::Nothing };
        let full = only(Blocks::PUBLISHED, SHORTEST).run(0).unwrap();
        assert_eq!(full, Full { user: 1024 * 128, real: SEGMENT });
        let full = only(Blocks::WITHOUT_HEADER, SHORTEST).run(0).unwrap();
        assert_eq!(full, Full { user: SEGMENT, real: SEGMENT });
    }
}
