//! Explains why a policy placed a block where it did, from the policy's definition and the holes that there were.

use std::fmt;

use heapwright_placement::PolicyKind;

use super::before::{Before, Hole, Need};
use heapwright_show::number::{bytes, counted, grouped};

/// The reason for a placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// First fit: the lowest hole that fits; `lower` holes below it do not fit.
    Lowest { lower: usize },
    /// Next fit: the first hole that fits from the rover on; `between` holes in between do not fit.
    NextUp { rover: usize, between: usize },
    /// Next fit: no hole above the rover fits, so that the search restarts at the bottom.
    NextAround { rover: usize, lower: usize },
    /// Best fit: the shortest of `fitting` holes that fit; the lowest of `equals` that are as short.
    Shortest { fitting: usize, equals: usize },
    /// Worst fit: the longest of `holes`; the lowest of `equals` that are as long.
    Longest { holes: usize, equals: usize },
    /// Worst fit: the longest hole does not hold the request at its alignment, but the free tail does.
    LongestUnfit,
    /// Random fit: number `place` (from 1), by size and address, of `fitting` holes that fit.
    Drawn { place: usize, fitting: usize },
    /// Good fit: the lowest of the shortest class of at least `from` bytes; `missed` holes in shorter classes would
    /// fit, but those classes are not searched.
    Class { from: usize, missed: usize },
    /// Good fit: the free tail, because no class of at least `from` bytes has a hole.
    NoClass { from: usize },
    /// Buddies: the lowest of `equals` shortest free blocks among those that hold a block of `block` bytes.
    Order { block: usize, equals: usize },
    /// No hole was taken: the heap grew by `by` bytes.
    Grew { untaken: Untaken, by: usize },
}

/// Why a policy takes no hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untaken {
    /// None of `holes` holes fits.
    Unfit { holes: usize },
    /// Good fit: `fitting` holes would fit, but lie in classes that are not searched: of less than `from` bytes.
    Unsearched { fitting: usize, from: usize },
    /// Worst fit: the longest hole does not hold the request at its alignment; `fitting` others would.
    LongestUnfit { fitting: usize },
}

impl Untaken {
    /// Explains why `policy`, by its usual rules, takes none of the holes.
    pub fn of(policy: PolicyKind, before: &Before, need: &Need) -> Untaken {
        let fitting = count(before, |hole| need.fits(hole));
        match policy {
            PolicyKind::Good if fitting > 0 => Untaken::Unsearched { fitting, from: searched_from(need) },
            PolicyKind::Worst if fitting > 0 => Untaken::LongestUnfit { fitting },
            _ => Untaken::Unfit { holes: before.holes.len() },
        }
    }
}

impl Why {
    /// Explains why `policy` took `chosen`, the hole that holds the new block; `None` if the heap grew, to `end`.
    pub fn of(policy: PolicyKind, before: &Before, need: &Need, chosen: Option<Hole>, end: usize) -> Why {
        let Some(chosen) = chosen.filter(|_| end == before.end) else {
            return Why::Grew { untaken: Untaken::of(policy, before, need), by: end - before.end };
        };
        match policy {
            PolicyKind::First => Why::Lowest { lower: count(before, |hole| hole.start < chosen.start) },
            PolicyKind::Next => next(before, chosen),
            PolicyKind::Best => Why::Shortest {
                fitting: count(before, |hole| need.fits(hole)),
                equals: count(before, |hole| hole.len == chosen.len && need.fits(hole)),
            },
            PolicyKind::Worst if before.holes.iter().any(|hole| is_before(hole, &chosen)) => Why::LongestUnfit,
            PolicyKind::Worst => {
                Why::Longest { holes: before.holes.len(), equals: count(before, |hole| hole.len == chosen.len) }
            }
            PolicyKind::Random => Why::Drawn {
                place: 1 + count(before, |hole| need.fits(hole) && (hole.len, hole.start) < (chosen.len, chosen.start)),
                fitting: count(before, |hole| need.fits(hole)),
            },
            PolicyKind::Good => good(before, need, chosen),
            PolicyKind::Buddy => Why::Order {
                block: need.len.next_power_of_two().max(need.align),
                equals: count(before, |hole| hole.len == chosen.len),
            },
        }
    }
}

fn count(before: &Before, is_meant: impl Fn(Hole) -> bool) -> usize {
    before.holes.iter().filter(|&&hole| is_meant(hole)).count()
}

/// Returns whether worst fit prefers `hole` to `other`.
fn is_before(hole: &Hole, other: &Hole) -> bool {
    (other.len, hole.start) < (hole.len, other.start)
}

fn next(before: &Before, chosen: Hole) -> Why {
    // A rover at the heap's end continues at the bottom.
    let rover = if before.rover < before.end { before.rover } else { 0 };
    if chosen.end() > rover {
        Why::NextUp { rover, between: count(before, |hole| hole.end() > rover && hole.start < chosen.start) }
    } else {
        Why::NextAround { rover, lower: count(before, |hole| hole.start < chosen.start) }
    }
}

fn good(before: &Before, need: &Need, chosen: Hole) -> Why {
    let from = searched_from(need);
    if before.is_tail(chosen) {
        return Why::NoClass { from };
    }
    Why::Class { from, missed: count(before, |hole| hole.len < from && need.fits(hole) && !before.is_tail(hole)) }
}

/// Returns the least length, in bytes, of the holes that good fit searches.
fn searched_from(need: &Need) -> usize {
    class_from(need.longest() / need.granule) * need.granule
}

/// Returns the least length, in granules, of good fit's class for requests of `len`: each length is a class up to 64,
/// then there are eight classes per doubling.
pub fn class_from(len: usize) -> usize {
    if len <= 65 { len } else { len.next_multiple_of(1 << (len.ilog2() - 3)) }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Why::Lowest { lower: 0 } => f.write_str("the lowest of all, and it fits"),
            Why::Lowest { lower } => write!(f, "the lowest that fits ({})", unfit(lower, "lower")),
            Why::NextUp { rover, between: 0 } => write!(f, "the first from the rover at {rover:#x} on, and it fits"),
            Why::NextUp { rover, between } => {
                write!(f, "the first that fits from the rover at {rover:#x} on ({})", unfit(between, "between"))
            }
            Why::NextAround { rover, lower } => {
                write!(f, "nothing fits from the rover at {rover:#x} on; from the bottom up the first that does")?;
                if lower == 0 { Ok(()) } else { write!(f, " ({})", unfit(lower, "lower")) }
            }
            Why::Shortest { fitting: 1, .. } => f.write_str("the only one that fits"),
            Why::Shortest { fitting, equals } => {
                write!(f, "the smallest of {} that fit{}", grouped(fitting as u64), tie(equals))
            }
            Why::Longest { holes: 1, .. } => f.write_str("the only hole"),
            Why::Longest { holes, equals } => {
                write!(f, "the largest of {} holes{}", grouped(holes as u64), tie(equals))
            }
            Why::LongestUnfit => f.write_str("the largest hole does not hold it at its alignment, the free tail does"),
            Why::Drawn { fitting: 1, .. } => f.write_str("drawn from one that fits"),
            Why::Drawn { place, fitting } => {
                write!(
                    f,
                    "drawn from {} that fit: number {} by size and address",
                    grouped(fitting as u64),
                    grouped(place as u64)
                )
            }
            Why::Class { from, missed } => {
                write!(f, "the lowest in the first class of sizes, from {} on, that has any", bytes(from as u64))?;
                if missed == 0 {
                    Ok(())
                } else {
                    write!(f, " ({} would fit as well, but are not searched)", fitting_below(missed))
                }
            }
            Why::NoClass { from } => write!(f, "no hole is in a class of sizes from {} on", bytes(from as u64)),
            Why::Order { block, equals } => {
                write!(
                    f,
                    "a block of {} is due: the smallest free one that suffices{}",
                    bytes(block as u64),
                    tie(equals)
                )
            }
            Why::Grew { untaken, by } => write!(f, "{untaken}: the heap grows by {}", bytes(by as u64)),
        }
    }
}

impl fmt::Display for Untaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Untaken::Unfit { holes: 0 } => f.write_str("there is no hole"),
            Untaken::Unfit { holes: 1 } => f.write_str("the only hole does not hold it"),
            Untaken::Unfit { holes } => write!(f, "none of {} holes holds it", grouped(holes as u64)),
            Untaken::Unsearched { fitting, from } => {
                let are = if fitting == 1 { "is" } else { "are" };
                let (holes, from) = (counted(fitting as u64, "hole"), bytes(from as u64));
                write!(f, "{holes} would hold it, but {are} in no class of sizes from {from} on, which are searched")
            }
            Untaken::LongestUnfit { fitting } => {
                let others = counted(fitting as u64, "shorter hole");
                write!(
                    f,
                    "the largest hole does not hold it at its alignment; {others} would, but no other is looked at"
                )
            }
        }
    }
}

/// Formats `3 holes lower do not`, namely fit: they are too small, or contain no place at its alignment.
fn unfit(count: usize, place: &str) -> String {
    match count {
        1 => format!("1 hole {place} does not"),
        _ => format!("{} holes {place} do not", grouped(count as u64)),
    }
}

fn fitting_below(count: usize) -> String {
    if count == 1 { "1 shorter hole".to_owned() } else { format!("{} shorter holes", grouped(count as u64)) }
}

/// Describes the tie-break among holes of one size.
fn tie(equals: usize) -> String {
    match equals {
        0 | 1 => String::new(),
        equals => format!(", the lowest of {} as large", grouped(equals as u64)),
    }
}
