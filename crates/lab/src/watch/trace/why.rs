//! Why a policy put a block where it did, from the policy's definition and the holes that there were.

use std::fmt;

use heapwright_placement::PolicyKind;

use super::before::{Before, Hole, Need};
use crate::number::{bytes, grouped};

/// The reason for a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// First fit: the lowest that fits. So many lie lower, and none of them does.
    Lowest { lower: usize },
    /// Next fit: the first that fits from the rover on. So many lie between, and none of them does.
    NextUp { rover: usize, between: usize },
    /// Next fit: none that fits lies above the rover, so it begins again at the bottom.
    NextAround { rover: usize, lower: usize },
    /// Best fit: the shortest of so many that fit; the lowest of those that are as short.
    Shortest { fitting: usize, equals: usize },
    /// Worst fit: the longest of so many; the lowest of those that are as long.
    Longest { holes: usize, equals: usize },
    /// Worst fit: the longest hole does not hold the request at its alignment, and the free tail does.
    LongestUnfit,
    /// Random fit: by size and address, the one at this place (from 1) of so many that fit.
    Drawn { place: usize, fitting: usize },
    /// Good fit: the lowest of the shortest class of at least so many bytes; so many holes would fit, but nobody looks for
    /// them in shorter classes.
    Class { from: usize, missed: usize },
    /// Good fit: the free tail, because no class of at least so many bytes has a hole.
    NoClass { from: usize },
    /// Buddies: the lowest of so many that are as short, among those that are long enough for a block of so many bytes.
    Order { block: usize, equals: usize },
    /// Nothing of so many holes fits: the heap grew by so many bytes.
    Grew { holes: usize, by: usize },
}

impl Why {
    /// Why `policy` took `chosen`, the hole that holds the new block; `None` when the heap grew, to `end`.
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

/// Whether worst fit looks at `hole` before `other`.
fn is_before(hole: &Hole, other: &Hole) -> bool {
    (other.len, hole.start) < (hole.len, other.start)
}

fn next(before: &Before, chosen: Hole) -> Why {
    // A rover that has come to the heap's end goes on at the bottom.
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

/// The least length, in granules, of good fit's class that holds requests of `len`: each length is a class up to 64,
/// then there are eight to every doubling.
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
                    write!(f, " ({} would fit as well, and nobody looks)", fitting_below(missed))
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

/// `3 holes lower are`, with the verb.
fn lie(count: usize, place: &str) -> String {
    if count == 1 { format!("1 hole {place} is") } else { format!("{} holes {place} are", grouped(count as u64)) }
}

fn fitting_below(count: usize) -> String {
    if count == 1 { "1 shorter hole".to_owned() } else { format!("{} shorter holes", grouped(count as u64)) }
}

/// What decides among holes of one size.
fn tie(equals: usize) -> String {
    match equals {
        0 | 1 => String::new(),
        equals => format!(", the lowest of {} as large", grouped(equals as u64)),
    }
}
