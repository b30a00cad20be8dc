//! The heap of a test.

use heapwright_placement::{AnyEngine, Growth, PolicyKind, Rules, RulesError, Statistics};

/// The parameters of a heap: its policy, its rules and the length of its region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// The policy.
    pub policy: PolicyKind,
    /// The rules.
    pub rules: Rules,
    /// The region's length in bytes.
    pub capacity: usize,
    /// The seed of random fit.
    pub seed: u64,
}

/// The granules of tested heaps, in bytes.
pub(crate) const GRANULES: [u32; 7] = [1, 2, 4, 8, 16, 32, 4096];

/// The ranges of region lengths, in granules: scanned ones from the shortest possible, indexed ones, and those from
/// each length at which an index of 64-way nodes gains a level.
const LENGTHS: [(usize, usize); 6] =
    [(1, 64), (65, 1024), (1025, 4096), (4097, 40_000), (262_145, 300_000), (1 << 20, 1 << 21)];

impl Scenario {
    /// Returns a random heap under `policy`.
    #[must_use]
    pub fn draw(policy: PolicyKind, random: &mut fastrand::Rng) -> Scenario {
        let (shortest, longest) = random.choice(LENGTHS).unwrap_or((1, 64));
        let granules = random.usize(shortest..=longest);
        Scenario::draw_over(granules, policy, random)
    }

    /// Returns a random heap under `policy`, over a region of `granules` granules.
    #[must_use]
    pub fn draw_over(granules: usize, policy: PolicyKind, random: &mut fastrand::Rng) -> Scenario {
        let granule = random.choice(GRANULES).unwrap_or(16);
        let header = if random.u8(..3) == 0 { granule * random.u32(..=(4096 / granule).min(8)) } else { 0 };
        Scenario {
            policy,
            rules: Rules {
                granule,
                header,
                min_remainder: if random.bool() { 1 } else { random.u32(..=(granule * 70).min(1 << 20)) },
                growth: draw_growth(granule, random),
                phase: if random.bool() { 0 } else { granule as usize * random.usize(..1 << 20) },
                statistics: if random.u8(..16) == 0 { Statistics::Off } else { Statistics::Kept },
            },
            capacity: granules * granule as usize + random.usize(..granule as usize),
            seed: random.u64(..),
        }
    }

    /// Returns the length of the metadata of the engine, in cells of 8 bytes.
    ///
    /// # Errors
    /// The errors of [`AnyEngine::metadata_cells`].
    pub fn metadata_cells(&self) -> Result<usize, RulesError> {
        AnyEngine::metadata_cells(self.policy, self.capacity, &self.rules)
    }
}

fn draw_growth(granule: u32, random: &mut fastrand::Rng) -> Growth {
    match random.u8(..6) {
        0 => Growth::Append,
        1 => Growth::Extend,
        2 => Growth::Pages(granule * random.u32(1..=300)),
        _ => Growth::Fixed,
    }
}
