//! One run of report 002's first experiment: random requests fill a segment until one of them fails.

use anyhow::Result;
use heapwright_placement::{Buddy, Engine, Generator, Rules, Statistics};

/// The report's segment, in bytes.
pub const SEGMENT: usize = 256 << 10;

/// The shortest request, in bytes.
pub const SHORTEST: usize = 128;

/// What the blocks of a segment are like. Both kinds are powers of two long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// Bytes in front of a block's payload.
    pub header: usize,
    /// The shortest block, in bytes.
    pub granule: usize,
}

impl Blocks {
    /// The report's: 16 bytes of each block are taken by the allocator.
    pub const PUBLISHED: Blocks = Blocks { header: 16, granule: 16 };

    /// Those of a `SharedHeap`: what the heap knows about a block lies elsewhere.
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

/// What happens to the blocks along the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frees {
    /// They all stay.
    Nothing,
    /// Of 101 blocks, 100 are freed at once: what the report's code does.
    TheBlockItself,
    /// As often, but any of the live blocks: how the report's words may be understood, too.
    AnyBlock,
}

/// The report draws a number from 0 to 100 and frees unless it is 0.
pub const DRAWS_PER_FREE: usize = 101;

/// A run: what is drawn, what for, and what is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// The blocks of the segment.
    pub blocks: Blocks,
    /// The longest request, in bytes; all sizes from [`SHORTEST`] to it are equally likely.
    pub longest: usize,
    /// What is freed.
    pub frees: Frees,
}

/// What is live when the first request fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    /// The bytes asked for.
    pub user: usize,
    /// The lengths of the blocks, headers included.
    pub real: usize,
}

impl Full {
    /// The four figures of the report's tables: both sums in bytes, what the blocks waste of themselves, and what is
    /// not the user's of the segment, in per cent.
    pub fn figures(self) -> [f64; 4] {
        figures(self.user as f64, self.real as f64)
    }
}

/// As [`Full::figures`], of any two sums.
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
    /// Runs it with the numbers of `seed`.
    ///
    /// # Errors
    /// The engine refused its rules or one of its own blocks.
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

    /// Which of the live blocks is freed now, if any; the one just allocated is the last.
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
