//! Rules of allocators that the fast engine does not have. The reference engine has them.

use heapwright_placement::PolicyKind;

/// Which neighbours a freed block merges with, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merging {
    /// Both, when it is freed.
    Both,
    /// The hole behind it only, when it is freed.
    Forward,
    /// None when it is freed. When no hole serves a request, all adjacent holes merge, and the search is repeated.
    Deferred,
}

/// Which end of a hole a block is cut from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// The low end.
    Low,
    /// The high end.
    High,
}

/// The rover of next fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rover {
    /// It is at the end of the last placed block; a search wraps.
    Wraps,
    /// As programmed for report 003. A search begins at the block after the rover's, at the first block when the
    /// rover's is the last, and ends at the end of the heap. The rover is the remainder of a split, else the block.
    NeverWraps,
    /// It also moves to every hole that a free makes; a search wraps.
    Freed,
}

/// The holes that worst fit takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worst {
    /// The largest.
    Largest,
    /// The largest, unless it fits exactly, as programmed for report 000.
    NeverExact,
}

/// The rules that only the reference engine has in all their values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Odd {
    /// Which neighbours a freed block merges with.
    pub merging: Merging,
    /// Which end of a hole a block is cut from.
    pub split: Split,
    /// The rover of next fit.
    pub rover: Rover,
    /// The holes that worst fit takes.
    pub worst: Worst,
}

impl Odd {
    /// The rules of the fast engine.
    pub const USUAL: Odd =
        Odd { merging: Merging::Both, split: Split::Low, rover: Rover::Wraps, worst: Worst::Largest };

    /// Returns why the fast engine cannot place blocks by these rules; `None` if it can, whatever the policy.
    ///
    /// ```
    /// use heapwright_rules::{Merging, Odd};
    /// let odd = Odd { merging: Merging::Forward, ..Odd::USUAL };
    /// assert_eq!(odd.reason(), Some("merging is forward only"));
    /// ```
    #[must_use]
    pub fn reason(&self) -> Option<&'static str> {
        PolicyKind::ALL.iter().find_map(|policy| self.reason_under(*policy))
    }

    /// As [`Odd::reason`] under a policy: the rover concerns only next fit, exact holes only worst fit.
    #[must_use]
    pub fn reason_under(&self, policy: PolicyKind) -> Option<&'static str> {
        match (self.merging, self.split) {
            (Merging::Forward, _) => return Some("merging is forward only"),
            (Merging::Deferred, _) => return Some("merging is deferred"),
            (Merging::Both, Split::High) => return Some("blocks are cut from the high end"),
            (Merging::Both, Split::Low) => {}
        }
        match (policy, self.rover, self.worst) {
            (PolicyKind::Next, Rover::NeverWraps, _) => Some("the rover never wraps"),
            (PolicyKind::Next, Rover::Freed, _) => Some("the rover moves to freed holes"),
            (PolicyKind::Worst, _, Worst::NeverExact) => Some("worst fit never takes an exact hole"),
            _ => None,
        }
    }

    /// Returns the rules and their values, as they are written.
    ///
    /// ```
    /// use heapwright_rules::Odd;
    /// let usual = [("merging", "both"), ("split", "low"), ("rover", "wraps"), ("worst", "largest")];
    /// assert_eq!(Odd::USUAL.entries(), usual);
    /// ```
    #[must_use]
    pub fn entries(&self) -> [(&'static str, &'static str); 4] {
        [
            ("merging", name(&self.merging, &MERGINGS)),
            ("split", name(&self.split, &SPLITS)),
            ("rover", name(&self.rover, &ROVERS)),
            ("worst", name(&self.worst, &WORSTS)),
        ]
    }

    /// Sets the rule `key` to `value`.
    ///
    /// # Errors
    /// The valid values; `None` if there is no such rule.
    pub(crate) fn take(&mut self, key: &str, value: &str) -> Result<(), Option<&'static str>> {
        let Odd { merging, split, rover, worst } = self;
        match key {
            "merging" => choose(merging, &MERGINGS, value).ok_or(Some("both, forward or deferred")),
            "split" => choose(split, &SPLITS, value).ok_or(Some("low or high")),
            "rover" => choose(rover, &ROVERS, value).ok_or(Some("wraps, never-wraps or freed")),
            "worst" => choose(worst, &WORSTS, value).ok_or(Some("largest or never-exact")),
            _ => Err(None),
        }
    }
}

impl core::fmt::Display for Odd {
    /// Writes the rules that are not the usual ones, each with a comma before it.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        for ((key, value), (_, usual)) in self.entries().into_iter().zip(Odd::USUAL.entries()) {
            if value != usual {
                write!(f, ",{key}={value}")?;
            }
        }
        Ok(())
    }
}

const MERGINGS: [(&str, Merging); 3] =
    [("both", Merging::Both), ("forward", Merging::Forward), ("deferred", Merging::Deferred)];
const SPLITS: [(&str, Split); 2] = [("low", Split::Low), ("high", Split::High)];
const ROVERS: [(&str, Rover); 3] =
    [("wraps", Rover::Wraps), ("never-wraps", Rover::NeverWraps), ("freed", Rover::Freed)];
const WORSTS: [(&str, Worst); 2] = [("largest", Worst::Largest), ("never-exact", Worst::NeverExact)];

/// Sets the rule to the value of this name, if there is one.
fn choose<T: Copy>(rule: &mut T, values: &[(&str, T)], name: &str) -> Option<()> {
    *rule = values.iter().find(|(known, _)| *known == name)?.1;
    Some(())
}

/// Returns the name of a value.
fn name<T: PartialEq>(value: &T, values: &[(&'static str, T)]) -> &'static str {
    values.iter().find(|(_, known)| known == value).map_or("", |(name, _)| name)
}
