//! The map without its summary, for recovery, which trusts only the starts and their kinds.

use super::{BlockMap, cells_for};
use crate::bits::{above, below, highest, lowest};

impl BlockMap<'_> {
    /// Marks the start of a used block at `granule` without an update of the summary.
    pub(crate) fn put_block(&mut self, granule: usize) {
        let (word, bit) = (granule / 64, 1u64 << (granule % 64));
        self.cells.set(2 * word + 1, self.cells.get(2 * word + 1) & !bit);
        self.cells.set(2 * word, self.starts(word) | bit);
    }

    /// Marks the start of a hole at `granule` without an update of the summary.
    pub(crate) fn put_hole(&mut self, granule: usize) {
        let (word, bit) = (granule / 64, 1u64 << (granule % 64));
        self.cells.set(2 * word + 1, self.cells.get(2 * word + 1) | bit);
        self.cells.set(2 * word, self.starts(word) | bit);
    }

    /// Removes all starts in `from..to` without an update of the summary.
    pub(crate) fn wipe(&mut self, from: usize, to: usize) {
        for word in from / 64..to.div_ceil(64) {
            let kept_below = if word == from / 64 { below(from % 64) } else { 0 };
            let kept_above = if word == to / 64 { !below(to % 64) } else { 0 };
            self.cells.set(2 * word, self.starts(word) & (kept_below | kept_above));
        }
    }

    /// Removes all starts from `end` on, and clears the guards, the pending hole and the summary.
    pub(crate) fn wipe_from(&mut self, end: usize, granules: usize) {
        let (word, kept) = (end / 64, below(end % 64));
        self.cells.set(2 * word, self.starts(word) & kept);
        self.cells.set(2 * word + 1, self.cells.get(2 * word + 1) & kept);
        for cell in 2 * (word + 1)..cells_for(granules) {
            self.cells.set(cell, 0);
        }
    }

    /// Returns the first start above `granule`, or `end` when there is none below that.
    pub(crate) fn next_start_below(&self, granule: usize, end: usize) -> usize {
        let mut word = granule / 64;
        let mut starts = self.starts(word) & above(granule % 64);
        while starts == 0 {
            word += 1;
            if word * 64 >= end {
                return end;
            }
            starts = self.starts(word);
        }
        (word * 64 + lowest(starts)).min(end)
    }

    /// Returns whether the last start at or below `granule` is a hole's; granule 0 is a start.
    pub(crate) fn is_in_hole(&self, granule: usize) -> bool {
        let mut word = granule / 64;
        let mut starts = self.starts(word) & !above(granule % 64);
        while starts == 0 && word > 0 {
            word -= 1;
            starts = self.starts(word);
        }
        starts != 0 && self.is_hole(word * 64 + highest(starts))
    }

    /// Builds the summary, which is empty, for every word up to that of `end`.
    pub(crate) fn summarise_all(&mut self, end: usize) {
        for word in 0..=end / 64 {
            if self.starts(word) != 0 {
                self.summarise(word);
            }
        }
    }
}
