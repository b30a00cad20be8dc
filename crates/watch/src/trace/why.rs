//! Explains why a policy placed a block where it did, from the policy's definition and the holes that there were.

use std::fmt;

use heapwright_placement::PolicyKind;

use super::before::{Before, Hole, Need};
use heapwright_show::number::{bytes, grouped};

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
    /// None of `holes` holes fits: the heap grew by `by` bytes.
    Grew { holes: usize, by: usize },
}

impl Why {
    /// Explains why `policy` took `chosen`, the hole that holds the new block; `None` if the heap grew, to `end`.
    pub fn of(policy: PolicyKind, before: &Before, need: &Need, chosen: Option<Hole>, end: usize) -> Why {
        let Some(chosen) = chosen.filter(|_| end == before.end) else {
            return Why::Grew { holes: before.holes.len(), by: end - before.end };
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
    let from = class_from(need.longest() / need.granule) * need.granule;
    if before.is_tail(chosen) {
        return Why::NoClass { from };
    }
    Why::Class { from, missed: count(before, |hole| hole.len < from && need.fits(hole) && !before.is_tail(hole)) }
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
            Why::Lowest { lower } => write!(f, "the lowest that fits ({} too small)", lie(lower, "lower")),
            Why::NextUp { rover, between: 0 } => write!(f, "the first from the rover at {rover:#x} on, and it fits"),
            Why::NextUp { rover, between } => {
                write!(f, "the first that fits from the rover at {rover:#x} on ({} too small)", lie(between, "between"))
            }
            Why::NextAround { rover, lower } => {
                write!(f, "nothing fits from the rover at {rover:#x} on; from the bottom up the first that does")?;
                if lower == 0 { Ok(()) } else { write!(f, " ({} too small)", lie(lower, "lower")) }
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
            Why::Grew { holes: 0, by } => write!(f, "there is no hole: the heap grows by {}", bytes(by as u64)),
            Why::Grew { holes: 1, by } => {
                write!(f, "the only hole does not hold it: the heap grows by {}", bytes(by as u64))
            }
            Why::Grew { holes, by } => {
                write!(f, "none of {} holes holds it: the heap grows by {}", grouped(holes as u64), bytes(by as u64))
            }
        }
    }
}

/// Formats `3 holes lower are`, with the verb.
fn lie(count: usize, place: &str) -> String {
    if count == 1 { format!("1 hole {place} is") } else { format!("{} holes {place} are", grouped(count as u64)) }
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
