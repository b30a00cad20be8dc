//! The heap to simulate.

use heapwright_placement::{Growth, MAX_GRANULES, PolicyKind, Rules};
use heapwright_rules::{Odd, Requests, RuleSet};

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
    /// How requests are read.
    pub requests: Requests,
    /// The rules that only the reference engine has in all their values.
    pub odd: Odd,
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
        let requests = RuleSet::SIMULATED.requests;
        Model { policy, rules, requests, odd: Odd::USUAL, capacity: Self::USUAL_CAPACITY.min(longest), seed: 1 }
    }
}

impl Model {
    /// Returns the model under a set of rules, with seed 1. Without a limit, the capacity is that of [`Model::with`].
    #[must_use]
    pub fn of_set(policy: PolicyKind, set: &RuleSet) -> Model {
        let usual = Model::with(policy, set.rules);
        let capacity = set.limit.map_or(usual.capacity, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        Model { capacity, requests: set.requests, odd: set.odd, ..usual }
    }

    /// Returns why the reference engine places the blocks, whose operations take time proportional to the number of
    /// blocks; `None` if the fast engine does.
    #[must_use]
    pub fn odd_reason(&self) -> Option<&'static str> {
        self.odd.reason_under(self.policy)
    }

    /// Returns the name of the engine that places the blocks: `fast` or `reference`.
    #[must_use]
    pub fn engine_name(&self) -> &'static str {
        if self.odd_reason().is_some() { "reference" } else { "fast" }
    }
}

/// Returns the size and the alignment that are requested of the engine for a request of a trace that names this
/// alignment, see [`Kind::named_align`](heapwright_trace::Kind::named_align); `None` if it gets no block.
#[inline(always)]
pub(crate) fn requested(requests: &Requests, size: u64, named: u64) -> Option<(usize, usize)> {
    Some((requests.bytes(size as usize)?, requests.align(named as usize)))
}
