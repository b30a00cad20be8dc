//! The policies: which hole a request goes to.

use std::cmp::Reverse;

use heapwright_placement::{Generator, PolicyKind};

use super::{Defect, Need, Oracle, Run};

impl Oracle {
    /// The place in the list of the hole that the policy takes.
    pub(super) fn choose(&mut self, need: &Need) -> Option<usize> {
        match (self.policy, self.defect) {
            (PolicyKind::First, _) => self.fitting(need).next(),
            (PolicyKind::Next, Some(Defect::NextNeverWraps)) => self.next_without_wrap(need),
            (PolicyKind::Next, _) => self.next(need),
            (PolicyKind::Best, _) => self.fitting(need).min_by_key(|&at| self.runs[at].len),
            (PolicyKind::Worst, Some(Defect::WorstRefusesExactFit)) => {
                self.largest().filter(|&at| need.fits(&self.runs[at]) && self.runs[at].len > need.len)
            }
            (PolicyKind::Worst, _) => {
                self.largest().filter(|&at| need.fits(&self.runs[at])).or_else(|| self.tail(need))
            }
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

    /// The heap's free tail, when the request fits into it.
    fn tail(&self, need: &Need) -> Option<usize> {
        self.fitting(need).find(|&at| at + 1 == self.runs.len())
    }

    fn largest(&self) -> Option<usize> {
        self.holes().min_by_key(|&at| Reverse(self.runs[at].len))
    }

    /// The hole that contains or starts at the rover, then higher ones, then from the bottom.
    fn next(&self, need: &Need) -> Option<usize> {
        let mut ahead = self.fitting(need).filter(|&at| self.runs[at].end() > self.rover);
        ahead.next().or_else(|| self.fitting(need).next())
    }

    fn next_without_wrap(&self, need: &Need) -> Option<usize> {
        let rovers = self.runs.iter().position(|run| run.end() > self.rover)?;
        let from = if rovers + 1 == self.runs.len() { 0 } else { rovers + 1 };
        self.fitting(need).find(|&at| at >= from)
    }

    /// In the order of (size, address), the one that the generator says.
    fn random(&mut self, need: &Need) -> Option<usize> {
        let mut candidates: Vec<usize> = self.fitting(need).collect();
        candidates.sort_by_key(|&at| self.runs[at].len);
        let count = candidates.len();
        (count != 0).then(|| candidates[Generator(&mut self.seed).below(count)])
    }

    /// The lowest hole of the smallest class that is not empty, from the class that the request is rounded up to;
    /// the heap's free tail stands aside until there is none.
    fn good(&self, need: &Need) -> Option<usize> {
        let len = need.len.saturating_add(need.longest_gap());
        let sufficient = class_at_least(len);
        self.holes()
            .filter(|&at| at + 1 != self.runs.len() && self.runs[at].len >= sufficient)
            .min_by_key(|&at| class_at_most(self.runs[at].len))
            .or_else(|| self.tail(need))
    }

    /// Where the rover stands after a block was placed at `index` in the list.
    pub(super) fn move_rover(&mut self, index: usize) {
        let placed = self.runs[index];
        let was_split = self.runs.get(index + 1).is_some_and(Run::is_hole);
        self.rover = match self.defect {
            Some(Defect::NextNeverWraps) if !was_split => placed.start,
            _ => placed.end(),
        };
    }
}

/// The shortest lengths of good fit's classes: every length up to 64, then eight to a doubling.
fn classes() -> impl Iterator<Item = usize> {
    let long = (6..usize::BITS - 1).flat_map(|doubling| (0..8).map(move |eighth| (8 + eighth) << (doubling - 3)));
    (1..=64).chain([65]).chain(long.skip(1))
}

/// The class that a hole of this length belongs to.
fn class_at_most(len: usize) -> usize {
    classes().take_while(|&shortest| shortest <= len).last().unwrap_or(0)
}

/// The class that a request of this length is rounded up to.
fn class_at_least(len: usize) -> usize {
    classes().find(|&shortest| shortest >= len).unwrap_or(usize::MAX)
}
