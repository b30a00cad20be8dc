//! The rules of the five published allocators, by name. What a report does not say is as usual.

use heapwright_placement::{Growth, PolicyKind, Rules};

use crate::{Only, Requests, RuleSet, Zero};

const fn rules(granule: u32, header: u32, min_remainder: u32, growth: Growth) -> Rules {
    Rules { granule, header, min_remainder, growth, ..RuleSet::USUAL.rules }
}

/// Report 000, a drop-in malloc with four fits: headers of 24 bytes, sizes rounded up to 4, a hole is split when more
/// than 28 bytes remain, the heap grows by exactly a block even behind a hole, `malloc(0)` is null.
pub const REPORT000: RuleSet = RuleSet {
    rules: rules(4, 24, 32, Growth::Append),
    requests: Requests { zero: Zero::Null, ..RuleSet::USUAL.requests },
    ..RuleSet::USUAL
};

/// Report 001, an arena with four fits: no headers, sizes rounded up to 4, every remainder becomes a hole, one fixed
/// region, as long as its program asks.
pub const REPORT001: RuleSet = RuleSet { rules: rules(4, 0, 1, Growth::Fixed), ..RuleSet::USUAL };

/// Report 002, buddies in a segment of up to 256 KiB: headers of 16 bytes, no block shorter than 128.
pub const REPORT002: RuleSet = RuleSet {
    rules: rules(16, 16, 1, Growth::Fixed),
    requests: Requests { least: 112, ..RuleSet::USUAL.requests },
    limit: Some(256 << 10),
    only: Some(Only::Policy(PolicyKind::Buddy)),
    ..RuleSet::USUAL
};

/// Report 003, five fits in a pool of 1 KiB: headers of 16 bytes, sizes rounded up to 2, a remainder of at most 16
/// bytes stays with the block.
pub const REPORT003: RuleSet =
    RuleSet { rules: rules(2, 16, 18, Growth::Fixed), limit: Some(1 << 10), ..RuleSet::USUAL };

/// Report 004: every block is its own mapping of whole pages.
pub const REPORT004: RuleSet =
    RuleSet { rules: rules(4096, 0, 1, Growth::Append), only: Some(Only::Mapped), ..RuleSet::USUAL };

/// The names of the sets, in their order.
pub const NAMES: [&str; 5] = ["report000", "report001", "report002", "report003", "report004"];

/// Returns the set of a name.
#[must_use]
pub fn named(name: &str) -> Option<RuleSet> {
    let sets = [REPORT000, REPORT001, REPORT002, REPORT003, REPORT004];
    NAMES.iter().position(|known| *known == name).map(|at| sets[at])
}
