//! The policies: selects the hole for a request.

use std::cmp::Reverse;

use heapwright_placement::{Generator, PolicyKind};
use heapwright_rules::{Odd, Rover, Worst};

use super::fits::Cut;
use super::{Need, Reference};

impl Reference {
    /// Returns the index of the hole that the policy selects.
    pub(super) fn choose(&mut self, need: &Need) -> Option<usize> {
        match (self.policy, self.odd) {
            (PolicyKind::First, _) => self.fitting(need).next(),
            (PolicyKind::Next, Odd { rover: Rover::NeverWraps, .. }) => self.next_without_wrap(need),
            (PolicyKind::Next, _) => self.next(need),
            (PolicyKind::Best, _) => self.fitting(need).min_by_key(|&at| self.runs[at].len),
            (PolicyKind::Worst, Odd { worst: Worst::NeverExact, .. }) => {
                self.worst(need).filter(|&at| self.runs[at].len > need.len)
            }
            (PolicyKind::Worst, _) => self.worst(need),
            (PolicyKind::Random, _) => self.random(need),
            (PolicyKind::Good, _) => self.good(need),
            (PolicyKind::Buddy, _) => None,
        }
    }

    fn holes(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.runs.len()).filter(|&at| self.runs[at].is_hole())
    }

    fn fitting<'a>(&'a self, need: &'a Need) -> impl Iterator<Item = usize> + 'a {
        self.holes().filter(|&at| need.fits(&self.runs[at]))
    }

    /// Returns the free tail of the heap, if the request fits into it.
    fn tail(&self, need: &Need) -> Option<usize> {
        self.fitting(need).find(|&at| at + 1 == self.runs.len())
    }

    /// Returns the largest hole, or the free tail if that hole does not fit: one of another alignment.
    fn worst(&self, need: &Need) -> Option<usize> {
        self.largest().filter(|&at| need.fits(&self.runs[at])).or_else(|| self.tail(need))
    }

    fn largest(&self) -> Option<usize> {
        self.holes().min_by_key(|&at| Reverse(self.runs[at].len))
    }

    /// Returns the first fitting hole that ends after the rover, or else the lowest fitting hole.
    fn next(&self, need: &Need) -> Option<usize> {
        let mut ahead = self.fitting(need).filter(|&at| self.runs[at].end() > self.rover);
        ahead.next().or_else(|| self.fitting(need).next())
    }

    fn next_without_wrap(&self, need: &Need) -> Option<usize> {
        let rovers = self.runs.iter().position(|run| run.end() > self.rover)?;
        let from = if rovers + 1 == self.runs.len() { 0 } else { rovers + 1 };
        self.fitting(need).find(|&at| at >= from)
    }

    /// Returns a random fitting hole: an index from the generator into the holes ordered by (size, address).
    fn random(&mut self, need: &Need) -> Option<usize> {
        let mut candidates: Vec<usize> = self.fitting(need).collect();
        candidates.sort_by_key(|&at| self.runs[at].len);
        let count = candidates.len();
        (count != 0).then(|| candidates[Generator(&mut self.seed).below(count)])
    }

    /// Returns the lowest hole of the smallest class that is not empty, from the class that the request is rounded up
    /// to. The free tail of the heap is used last.
    fn good(&self, need: &Need) -> Option<usize> {
        let len = need.len.saturating_add(need.longest_gap());
        let sufficient = class_at_least(len);
        self.holes()
            .filter(|&at| at + 1 != self.runs.len() && self.runs[at].len >= sufficient)
            .min_by_key(|&at| class_at_most(self.runs[at].len))
            .or_else(|| self.tail(need))
    }

    /// Moves the rover after a block was placed.
    pub(super) fn move_rover(&mut self, cut: &Cut) {
        let placed = self.runs[cut.block];
        self.rover = match self.odd.rover {
            Rover::NeverWraps if !cut.has_remainder => placed.start,
            _ => placed.end(),
        };
    }
}

/// Returns the shortest lengths of the classes of good fit: every length up to 64, then eight per doubling.
fn classes() -> impl Iterator<Item = usize> {
    let long = (6..usize::BITS - 1).flat_map(|doubling| (0..8).map(move |eighth| (8 + eighth) << (doubling - 3)));
    (1..=64).chain([65]).chain(long.skip(1))
}

/// Returns the class of a hole of this length.
fn class_at_most(len: usize) -> usize {
    classes().take_while(|&shortest| shortest <= len).last().unwrap_or(0)
}

/// Returns the class that a request of this length is rounded up to.
fn class_at_least(len: usize) -> usize {
    classes().find(|&shortest| shortest >= len).unwrap_or(usize::MAX)
}
