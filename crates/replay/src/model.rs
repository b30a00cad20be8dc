//! What is simulated.

use heapwright_placement::{Growth, MAX_GRANULES, PolicyKind, Rules};

/// A heap as it is before the first event: its policy, its rules, and how far it may grow.
///
/// ```
/// use heapwright_placement::{Growth, PolicyKind, Rules};
/// use heapwright_replay::Model;
/// let usual = Model::usual(PolicyKind::Best);
/// assert_eq!(usual.capacity, 1 << 40);
/// // A fixed region of 64 KiB with headers of 16 bytes.
/// let rules = Rules { header: 16, growth: Growth::Fixed, ..usual.rules };
/// let small = Model { rules, capacity: 64 << 10, ..usual };
/// assert!(small.rules.validate().is_ok());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// Which hole is taken.
    pub policy: PolicyKind,
    /// Granule, headers, splitting, growth.
    pub rules: Rules,
    /// The most bytes that the heap may grow to; its length if the rules say that it does not grow.
    pub capacity: usize,
    /// The seed of random fit; the other policies have none.
    pub seed: u64,
}

impl Model {
    /// The longest region that [`Model::usual`] gives, in bytes: more than any machine has.
    const USUAL_CAPACITY: usize = 1 << 40;

    /// Granules of 16 bytes, no headers, every remainder a hole, a heap that grows by what is missing, up to 1 TiB; seed 1.
    #[must_use]
    pub fn usual(policy: PolicyKind) -> Model {
        Model::with(policy, Rules { growth: Growth::Extend, ..Rules::default() })
    }

    /// As [`Model::usual`] with rules of one's own, over a region as long as their granule allows, up to 1 TiB.
    #[must_use]
    pub fn with(policy: PolicyKind, rules: Rules) -> Model {
        let longest = MAX_GRANULES.saturating_mul(rules.granule as usize);
        Model { policy, rules, capacity: Self::USUAL_CAPACITY.min(longest), seed: 1 }
    }
}
