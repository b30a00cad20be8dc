//! The heap to simulate.

use heapwright_placement::{Growth, MAX_GRANULES, PolicyKind, Rules};

/// The heap to simulate: its policy, its rules and its capacity.
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
    /// The placement policy.
    pub policy: PolicyKind,
    /// Granule, headers, splitting, growth.
    pub rules: Rules,
    /// The limit of the heap in bytes; its length if the rules do not let it grow.
    pub capacity: usize,
    /// The seed of random fit; unused by the other policies.
    pub seed: u64,
}

impl Model {
    /// The capacity of [`Model::usual`], in bytes: more than the memory of any machine.
    const USUAL_CAPACITY: usize = 1 << 40;

    /// Returns the default model: granules of 16 bytes, no headers, every remainder becomes a hole, the heap extends
    /// its last hole as needed up to 1 TiB, seed 1.
    #[must_use]
    pub fn usual(policy: PolicyKind) -> Model {
        Model::with(policy, Rules { growth: Growth::Extend, ..Rules::default() })
    }

    /// Returns [`Model::usual`] with other rules. The capacity is the longest that their granule allows, up to 1 TiB.
    #[must_use]
    pub fn with(policy: PolicyKind, rules: Rules) -> Model {
        let longest = MAX_GRANULES.saturating_mul(rules.granule as usize);
        Model { policy, rules, capacity: Self::USUAL_CAPACITY.min(longest), seed: 1 }
    }
}
