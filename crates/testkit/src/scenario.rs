//! The heap that a test is about.

use heapwright_placement::{AnyEngine, Growth, PolicyKind, Rules, RulesError, Statistics};

/// A heap to be made: its policy, its rules, the length of its region.
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

/// The granules that heaps are tested with, in bytes.
pub(crate) const GRANULES: [u32; 7] = [1, 2, 4, 8, 16, 32, 4096];

/// The lengths of regions, in granules: the shortest there is, such that are scanned, such that are indexed, and one
/// beyond each length at which an index of 64-way nodes rises by a level.
const LENGTHS: [(usize, usize); 6] =
    [(16, 64), (65, 1024), (1025, 4096), (4097, 40_000), (262_145, 300_000), (1 << 20, 1 << 21)];

impl Scenario {
    /// A heap drawn at random under `policy`.
    #[must_use]
    pub fn draw(policy: PolicyKind, random: &mut fastrand::Rng) -> Scenario {
        let (shortest, longest) = random.choice(LENGTHS).unwrap_or((16, 64));
        let granules = random.usize(shortest..=longest);
        Scenario::draw_over(granules, policy, random)
    }

    /// A heap drawn at random under `policy`, over a region of so many granules.
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

    /// How many cells of 8 bytes the engine's metadata takes.
    ///
    /// # Errors
    /// As [`AnyEngine::metadata_cells`].
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
