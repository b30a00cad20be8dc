//! Placement and freeing for all policies but buddy: splits holes, and merges freed blocks with their neighbours.

use heapwright_placement::{Growth, PolicyKind};
use heapwright_rules::{Merging, Rover, Split};

use super::{Need, Reference, Run};

/// A hole that was cut.
pub(super) struct Cut {
    /// The index of the used block.
    pub(super) block: usize,
    /// Whether a remainder lies behind it. Another hole may, where holes are not merged.
    pub(super) has_remainder: bool,
}

impl Reference {
    /// Places a block in the hole that the policy selects, or in the space that the heap grows by.
    pub(super) fn place(&mut self, need: &Need) -> Option<Run> {
        let hole = match self.choose(need).or_else(|| self.choose_after_merging(need)) {
            Some(hole) => hole,
            None => self.grow(need)?,
        };
        let cut = self.cut(hole, need);
        if self.policy == PolicyKind::Next {
            self.move_rover(&cut);
        }
        let run = self.runs[cut.block];
        self.join_touching_holes(cut.block);
        Some(run)
    }

    /// Where merging is deferred, merges all adjacent holes and searches again.
    fn choose_after_merging(&mut self, need: &Need) -> Option<usize> {
        if self.odd.merging != Merging::Deferred {
            return None;
        }
        for index in (1..self.runs.len()).rev() {
            if self.runs[index].is_hole() && self.runs[index - 1].is_hole() {
                self.merge(index - 1);
            }
        }
        self.choose(need)
    }

    /// Returns the distance from the start of a hole to the block that is cut from it.
    fn distance(&self, hole: Run, need: &Need) -> usize {
        let low = need.gap(hole.start);
        match self.odd.split {
            Split::Low => low,
            Split::High => {
                let latest = hole.end() - need.len;
                let start = latest.saturating_sub(latest.wrapping_add(need.first_payload) % need.align);
                match start.checked_sub(hole.start) {
                    Some(distance) if distance >= need.min_gap => distance,
                    _ => low,
                }
            }
        }
    }

    /// Splits the hole at `index` into a gap (if alignment requires one), a used block and a remainder (if it is long
    /// enough to be a hole).
    fn cut(&mut self, mut index: usize, need: &Need) -> Cut {
        let hole = self.runs[index];
        let gap = self.distance(hole, need);
        if gap != 0 {
            self.split(index, gap);
            index += 1;
        }
        let has_remainder = hole.len - gap - need.len >= self.min_remainder();
        if has_remainder {
            self.split(index, need.len);
        }
        self.runs[index] = Run::used(self.runs[index].start, self.runs[index].len);
        Cut { block: index, has_remainder }
    }

    /// Splits the block at `index` in two, the first of length `len`.
    pub(super) fn split(&mut self, index: usize, len: usize) {
        let run = self.runs[index];
        self.runs[index] = Run { len, ..run };
        self.runs.insert(index + 1, Run { start: run.start + len, len: run.len - len, ..run });
        self.history.splits += 1;
    }

    /// Merges the blocks at `index` and `index + 1`.
    pub(super) fn merge(&mut self, index: usize) {
        let gone = self.runs.remove(index + 1);
        self.runs[index].len += gone.len;
        self.history.coalesces += 1;
    }

    /// Merges a front gap with the hole before it, which occurs at the end of a heap that grows by appending.
    fn join_touching_holes(&mut self, placed: usize) {
        if self.odd.merging == Merging::Both
            && placed >= 2
            && self.runs[placed - 1].is_hole()
            && self.runs[placed - 2].is_hole()
        {
            self.merge(placed - 2);
        }
    }

    /// Grows the heap for a request; returns the index of the hole that fits it.
    fn grow(&mut self, need: &Need) -> Option<usize> {
        let end = self.end();
        // A last hole that fits and was not selected, as some rovers do, is not extended: the heap grows behind it.
        let tail = self.runs.last().copied().filter(|tail| tail.is_hole() && !need.fits(tail));
        let start = match (self.rules.growth, tail) {
            (Growth::Extend | Growth::Pages(_), Some(tail)) => tail.start,
            _ => end,
        };
        let wanted = start.checked_add(need.gap(start))?.checked_add(need.len)?;
        let new_end = self.end_by_rule(wanted)?;
        self.history.grows += 1;
        self.runs.push(Run::hole(end, new_end - end));
        if start < end {
            self.merge(self.runs.len() - 2);
        }
        self.record_heap_size();
        Some(self.runs.len() - 1)
    }

    /// Returns the end of the heap under the growth rule if it must reach `wanted`.
    pub(super) fn end_by_rule(&self, wanted: usize) -> Option<usize> {
        if wanted > self.capacity {
            return None;
        }
        match self.rules.growth {
            Growth::Fixed => None,
            Growth::Append | Growth::Extend => Some(wanted),
            Growth::Pages(step) => {
                let step = (step / self.rules.granule) as usize;
                let missing = (wanted - self.end()).div_ceil(step) * step;
                Some((self.end() + missing).min(self.capacity))
            }
        }
    }

    /// Frees the block at `index` and merges it with its free neighbours as the rules say; returns the resulting hole.
    pub(super) fn free_block(&mut self, index: usize) -> Run {
        let run = self.runs[index];
        self.runs[index] = Run::hole(run.start, run.len);
        let merging = self.odd.merging;
        if merging != Merging::Deferred && self.runs.get(index + 1).is_some_and(Run::is_hole) {
            self.merge(index);
        }
        let mut hole = index;
        if merging == Merging::Both && index > 0 && self.runs[index - 1].is_hole() {
            hole = index - 1;
            self.merge(hole);
        }
        if self.odd.rover == Rover::Freed {
            self.rover = self.runs[hole].start;
        }
        self.runs[hole]
    }
}
