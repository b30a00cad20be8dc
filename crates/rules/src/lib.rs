//! The rules of a heap as users name them: a published set by its name, or each rule by itself. One text form serves
//! options, files and the environment of a process.
//!
//! ```
//! use heapwright_rules::{Growth, RuleSet, Zero};
//!
//! let published = RuleSet::from_text("report000", RuleSet::USUAL)?;
//! assert_eq!((published.rules.header, published.rules.growth), (24, Growth::Append));
//! assert_eq!(published.requests.zero, Zero::Null);
//!
//! // Later items change earlier ones.
//! let mine = RuleSet::from_text("report000, header = 8, min-remainder = 12", RuleSet::USUAL)?;
//! assert_eq!(mine.rules.header, 8);
//! let text = mine.to_string();
//! assert_eq!(RuleSet::from_text(&text, RuleSet::USUAL), Ok(mine));
//! # Ok::<(), heapwright_rules::TextError<'static>>(())
//! ```
#![no_std]

#[cfg(test)]
extern crate std;

mod odd;
mod published;
mod text;

pub use heapwright_placement::{Growth, PolicyKind, Rules, RulesError, Statistics};
pub use odd::{Merging, Odd, Rover, Split, Worst};
pub use published::{NAMES, REPORT000, REPORT001, REPORT002, REPORT003, REPORT004, named};
pub use text::{GrowthText, Reason, TextError};

/// What a request of 0 bytes gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zero {
    /// A block of its own, as under the system's malloc.
    Block,
    /// Null: no block, and nothing is counted.
    Null,
}

impl Zero {
    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Zero::Block => "block",
            Zero::Null => "null",
        }
    }
}

/// The only allocator that a set of rules belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Only {
    /// A policy of the engine.
    Policy(PolicyKind),
    /// A mapping of its own for every block.
    Mapped,
}

impl Only {
    /// Returns the name of the policy.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Only::Policy(policy) => policy.name(),
            Only::Mapped => "mapped",
        }
    }
}

/// How the requests of a program become those of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requests {
    /// The least alignment of blocks beyond the granule's, in bytes: a power of two up to 4096. The alignment of a
    /// request counts only where it is more.
    pub align: u32,
    /// A request for fewer bytes is one for this many; 0 or 1 for no such rule.
    pub least: u32,
    /// What a request of 0 bytes gets.
    pub zero: Zero,
}

impl Requests {
    /// No rule: every request is one for what it names.
    pub const USUAL: Requests = Requests { align: 1, least: 0, zero: Zero::Block };

    /// Checks that the alignment is a power of two up to 4096.
    ///
    /// # Errors
    /// [`Invalid::Align`].
    pub const fn validate(&self) -> Result<(), Invalid> {
        if self.align.is_power_of_two() && self.align <= 4096 { Ok(()) } else { Err(Invalid::Align) }
    }

    /// Returns the bytes that are requested of the engine for a request of `bytes`; `None` if it gets no block.
    #[must_use]
    #[inline]
    pub const fn bytes(&self, bytes: usize) -> Option<usize> {
        if bytes == 0 && matches!(self.zero, Zero::Null) {
            return None;
        }
        Some(self.raised(bytes))
    }

    /// Returns the bytes that a block has for a request of `bytes`, if it gets one; those of a resize.
    #[must_use]
    #[inline]
    pub const fn raised(&self, bytes: usize) -> usize {
        if bytes < self.least as usize { self.least as usize } else { bytes }
    }

    /// Returns the alignment for a request that names `align`, 1 if it names none.
    #[must_use]
    #[inline]
    pub const fn align(&self, align: usize) -> usize {
        if align < self.align as usize { self.align as usize } else { align }
    }
}

/// The rules of a heap, beside its policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleSet {
    /// Granule, header, least remainder and growth. Its phase and statistics are of no account here.
    pub rules: Rules,
    /// How requests are read.
    pub requests: Requests,
    /// The length of a heap in bytes: of one that does not grow ([`Growth::Fixed`]) its length, of others the most.
    pub limit: Option<u64>,
    /// The policy that these rules belong to, if they belong to one.
    pub only: Option<Only>,
    /// The rules that only the reference engine has in all their values.
    pub odd: Odd,
}

impl RuleSet {
    /// The rules of `heapwright run` if none are named: 16-byte granules, no headers, growth by 64 KiB.
    pub const USUAL: RuleSet = RuleSet {
        rules: Rules {
            granule: 16,
            header: 0,
            min_remainder: 1,
            growth: Growth::Pages(64 << 10),
            phase: 0,
            statistics: Statistics::Kept,
        },
        requests: Requests::USUAL,
        limit: None,
        only: None,
        odd: Odd::USUAL,
    };

    /// The rules of simulations if none are named: as [`RuleSet::USUAL`], but the heap grows by what is missing.
    pub const SIMULATED: RuleSet =
        RuleSet { rules: Rules { growth: Growth::Extend, ..RuleSet::USUAL.rules }, ..RuleSet::USUAL };

    /// Checks that these rules are valid together.
    ///
    /// # Errors
    /// What is wrong.
    pub fn validate(&self) -> Result<(), Invalid> {
        self.rules.validate().map_err(Invalid::Rules)?;
        self.requests.validate()?;
        if self.rules.growth == Growth::Fixed && self.limit.is_none() {
            return Err(Invalid::NoLimit);
        }
        let shortest = u64::from(self.requests.least.max(1)).next_multiple_of(u64::from(self.rules.granule));
        let least = shortest + u64::from(self.rules.header);
        if self.limit.is_some_and(|limit| limit < least) { Err(Invalid::TooShort { least }) } else { Ok(()) }
    }
}

/// Why a set of rules is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// A rule of the engine.
    Rules(RulesError),
    /// The alignment is no power of two up to 4096.
    Align,
    /// The heap does not grow, and its length is not known.
    NoLimit,
    /// The heap holds no block.
    TooShort {
        /// The length of a heap of one shortest block and its header, in bytes.
        least: u64,
    },
}

impl core::fmt::Display for Invalid {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Invalid::Rules(error) => error.fmt(f),
            Invalid::Align => f.write_str("the alignment must be a power of two up to 4096"),
            Invalid::NoLimit => f.write_str("a heap that does not grow needs a length: limit=BYTES"),
            Invalid::TooShort { least } => {
                write!(f, "the heap is too short: the least that holds a block is {least} bytes")
            }
        }
    }
}

impl core::error::Error for Invalid {}
