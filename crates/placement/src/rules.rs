//! The parameters of a heap that are chosen before it exists: its granule, its headers, how it splits and how it grows.

use crate::error::RulesError;

/// How a heap gets longer when no hole fits a request.
///
/// Whatever the rule, a heap never grows past the capacity of its region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// The heap is its whole region from the start and never grows.
    Fixed,
    /// A new block of exactly the requested size is added at the end, even when the last block is a hole.
    Append,
    /// Only what is missing behind the last hole is added.
    Extend,
    /// Like [`Growth::Extend`], rounded up to a multiple of this many bytes (at least one granule).
    Pages(u32),
}

/// The rules of a heap: everything but its policy and the length of its region. All sizes are in bytes.
///
/// ```
/// use heapwright_placement::{Growth, Rules};
/// // The heap of a textbook malloc: 4-byte granules, 24 bytes of header, growing by what is requested.
/// let rules = Rules { granule: 4, header: 24, min_remainder: 32, growth: Growth::Append, ..Rules::default() };
/// assert!(rules.validate().is_ok());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The smallest unit of placement: a power of two from 1 to 4096.
    pub granule: u32,
    /// Bytes that every block loses in front of its payload; a multiple of the granule, at most 4096.
    pub header: u32,
    /// A remainder shorter than this stays with the block instead of becoming a hole; rounded up to granules.
    pub min_remainder: u32,
    /// How the heap gets longer.
    pub growth: Growth,
    /// The address of the region's first byte modulo alignments: any number congruent to the real address modulo the
    /// largest requested alignment. A multiple of the granule; 0 for a region that has every alignment.
    pub phase: usize,
    /// Whether the heap keeps [`Counters`](crate::Counters).
    pub statistics: Statistics,
}

/// Whether a heap keeps counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistics {
    /// Every operation is counted.
    Kept,
    /// Nothing is counted and no memory is reserved for it; [`Counters`](crate::Counters) are not available.
    Off,
}

impl Default for Rules {
    /// 16-byte granules, no headers, every remainder a hole, a fixed region, counters kept.
    fn default() -> Self {
        Rules {
            granule: 16,
            header: 0,
            min_remainder: 1,
            growth: Growth::Fixed,
            phase: 0,
            statistics: Statistics::Kept,
        }
    }
}

/// The longest header a block may have, in bytes.
pub const MAX_HEADER: u32 = 4096;

/// The longest minimum remainder, in bytes.
pub(crate) const MAX_MIN_REMAINDER: u32 = 1 << 20;

/// The most granules a region may hold under any policy; see [`PolicyKind::most_granules`].
#[cfg(target_pointer_width = "64")]
pub const MAX_GRANULES: usize = 1 << 36;
/// The most granules a region may hold under any policy; see [`PolicyKind::most_granules`].
#[cfg(not(target_pointer_width = "64"))]
pub const MAX_GRANULES: usize = 1 << 28;

/// The most granules of a region under best and good fit, whose indexes are divided into stretches of the region.
#[cfg(target_pointer_width = "64")]
pub(crate) const MOST_GRANULES_BY_LENGTH: usize = 1 << 42;
#[cfg(not(target_pointer_width = "64"))]
pub(crate) const MOST_GRANULES_BY_LENGTH: usize = MAX_GRANULES;

/// The fewest granules a region may hold.
pub const MIN_GRANULES: usize = 1;

impl Rules {
    /// Checks that these rules are valid together.
    ///
    /// # Errors
    /// The first rule that is out of range.
    pub fn validate(&self) -> Result<(), RulesError> {
        if !self.granule.is_power_of_two() || self.granule > 4096 {
            return Err(RulesError::Granule);
        }
        if !self.header.is_multiple_of(self.granule) || self.header > MAX_HEADER {
            return Err(RulesError::Header);
        }
        if self.min_remainder > MAX_MIN_REMAINDER {
            return Err(RulesError::MinRemainder);
        }
        if !self.phase.is_multiple_of(self.granule as usize) {
            return Err(RulesError::Phase);
        }
        if let Growth::Pages(step) = self.growth
            && (step == 0 || !step.is_multiple_of(self.granule))
        {
            return Err(RulesError::Growth);
        }
        Ok(())
    }
}

/// The policies of the engine, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum PolicyKind {
    /// The lowest hole that fits.
    First = 1,
    /// The first hole that fits, from where the last block was placed.
    Next = 2,
    /// The smallest hole that fits; ties to the lowest address.
    Best = 3,
    /// The largest hole, if it fits; ties to the lowest address.
    Worst = 4,
    /// Any of the holes that fit, all equally likely, from a seeded generator.
    Random = 5,
    /// Binary buddies.
    Buddy = 6,
    /// Two-level segregated fit, in constant time.
    Good = 7,
}

impl PolicyKind {
    /// Every policy of the engine, in the order in which tables list them.
    pub const ALL: [PolicyKind; 7] = [
        PolicyKind::First,
        PolicyKind::Next,
        PolicyKind::Best,
        PolicyKind::Worst,
        PolicyKind::Random,
        PolicyKind::Buddy,
        PolicyKind::Good,
    ];

    /// Returns the name by which users choose the policy.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            PolicyKind::First => "first",
            PolicyKind::Next => "next",
            PolicyKind::Best => "best",
            PolicyKind::Worst => "worst",
            PolicyKind::Random => "random",
            PolicyKind::Buddy => "buddy",
            PolicyKind::Good => "good",
        }
    }

    /// Returns the most granules that a region may hold under this policy.
    #[must_use]
    pub const fn most_granules(self) -> usize {
        match self {
            PolicyKind::Best | PolicyKind::Good => MOST_GRANULES_BY_LENGTH,
            _ => MAX_GRANULES,
        }
    }

    /// Returns the policy of this name, if there is one.
    #[must_use]
    pub fn from_name(name: &str) -> Option<PolicyKind> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    pub(crate) fn from_tag(tag: u8) -> Option<PolicyKind> {
        Self::ALL.into_iter().find(|&kind| kind as u8 == tag)
    }
}
