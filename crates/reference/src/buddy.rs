//! Binary buddies.

use heapwright_placement::Growth;

use super::{Need, Reference, Run};

impl Reference {
    /// Places a block: takes the lowest of the smallest sufficient free blocks and halves it, keeping the low half,
    /// until it is as short as the request allows.
    pub(super) fn place_buddy(&mut self, need: &Need) -> Option<Run> {
        if !need.first_payload.is_multiple_of(need.align) {
            return None;
        }
        let len = need.len.checked_next_power_of_two()?.max(need.align);
        let index = match self.smallest_free(len) {
            Some(index) => index,
            None => {
                self.grow_by_buddies(len)?;
                self.smallest_free(len)?
            }
        };
        while self.runs[index].len > len {
            self.split(index, self.runs[index].len / 2);
        }
        self.runs[index] = Run::used(self.runs[index].start, len);
        Some(self.runs[index])
    }

    fn smallest_free(&self, len: usize) -> Option<usize> {
        let sufficient = |&at: &usize| self.runs[at].is_hole() && self.runs[at].len >= len;
        (0..self.runs.len()).filter(sufficient).min_by_key(|&at| self.runs[at].len)
    }

    /// Frees the block at `index` and merges it with its buddy while that is free; returns the hole.
    pub(super) fn free_buddy(&mut self, mut index: usize) -> Run {
        self.runs[index] = Run::hole(self.runs[index].start, self.runs[index].len);
        while let Some(low) = self.free_pair(index) {
            self.merge(low);
            index = low;
        }
        self.runs[index]
    }

    /// Returns the index of the lower block of the pair of the block at `index` and its buddy, if the buddy is free.
    fn free_pair(&self, index: usize) -> Option<usize> {
        let run = self.runs[index];
        let is_low = run.start.is_multiple_of(2 * run.len);
        let (low, buddy) = if is_low { (index, index + 1) } else { (index.checked_sub(1)?, index - 1) };
        self.runs.get(buddy).is_some_and(|buddy| buddy.is_hole() && buddy.len == run.len).then_some(low)
    }

    /// Grows the heap until it ends with a free place for a block of `len`: the lowest of which no part is used.
    fn grow_by_buddies(&mut self, len: usize) -> Option<()> {
        // What is appended begins at the end.
        let used = if self.rules.growth == Growth::Append { self.end() } else { self.end_of_used() };
        let wanted = used.checked_next_multiple_of(len)?.checked_add(len)?;
        let end = match self.rules.growth {
            Growth::Fixed => return None,
            Growth::Append | Growth::Extend => wanted,
            Growth::Pages(step) => {
                wanted.checked_next_multiple_of((step / self.rules.granule) as usize)?.min(self.capacity)
            }
        };
        if wanted > self.capacity {
            return None;
        }
        self.history.grows += 1;
        let pieces = self.append_buddies(end);
        self.history.splits += pieces - 1;
        self.record_heap_size();
        Some(())
    }

    /// Returns where the last used block ends.
    fn end_of_used(&self) -> usize {
        self.runs.iter().rev().find(|run| !run.is_hole()).map_or(0, |run| run.start + run.len)
    }

    /// Grows the heap to `end` by the fewest aligned blocks of power-of-two length, and merges each with its free
    /// buddies; returns the number of blocks.
    pub(super) fn append_buddies(&mut self, end: usize) -> u64 {
        let mut pieces = 0;
        while self.end() < end {
            let at = self.end();
            let mut len = 1;
            while at.is_multiple_of(2 * len) && at + 2 * len <= end {
                len *= 2;
            }
            self.runs.push(Run::hole(at, len));
            self.free_buddy(self.runs.len() - 1);
            pieces += 1;
        }
        pieces
    }

    /// Halves the block at `index`, or merges it with the free buddies above it, until it has the length for `len`.
    pub(super) fn resize_buddy(&mut self, index: usize, len: usize) -> Option<usize> {
        let len = len.checked_next_power_of_two()?;
        if !self.reaches(index, len) {
            return None;
        }
        while self.runs[index].len > len {
            self.split(index, self.runs[index].len / 2);
            self.runs[index + 1] = Run::hole(self.runs[index + 1].start, self.runs[index + 1].len);
        }
        while self.runs[index].len < len {
            self.merge(index);
        }
        Some(len)
    }

    /// Returns whether merging the block at `index` with its free buddies reaches `len` without moving its start.
    fn reaches(&self, index: usize, len: usize) -> bool {
        let run = self.runs[index];
        let mut reached = run.len;
        for buddy in &self.runs[index + 1..] {
            if reached >= len {
                break;
            }
            if !run.start.is_multiple_of(2 * reached) || !buddy.is_hole() || buddy.len != reached {
                return false;
            }
            reached *= 2;
        }
        reached >= len
    }
}
