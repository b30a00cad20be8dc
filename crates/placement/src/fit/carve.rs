//! Cutting a block from a hole, and giving it back.

use super::Fit;
use crate::engine::Freed;
use crate::index::Choose;
use crate::map::Hole;
use crate::noted::Change;
use crate::state::Need;

impl<P: Choose> Fit<'_, P> {
    /// Cuts the block that `need` describes from `hole`, which fits it, and returns its start and end.
    ///
    /// ```text
    ///   |         hole          |          |           hole           |
    ///   | block  |  remainder   |          | gap |  block  | remainder|   (gap: only for alignment)
    /// ```
    #[inline(always)]
    pub(super) fn carve(&mut self, hole: Hole, need: &Need, note: impl FnOnce(Change)) -> (usize, usize) {
        let gap = need.gap(hole.start);
        if gap != 0 {
            return self.carve_behind_gap(hole, gap, need, note);
        }
        let end = hole.start + need.len;
        let rest = Hole { start: end, len: hole.len - need.len };
        let shift = self.state.shift();
        if rest.len < self.state.min_remainder as usize {
            note(Change::of_granules(hole.start, hole.end(), hole.start, hole.end(), shift));
            self.index_remove(hole);
            self.map.mark_block(hole.start);
            if let Some(counters) = &mut self.counters {
                counters.holes -= 1;
            }
            return (hole.start, hole.end());
        }
        note(Change::of_granules(hole.start, hole.end(), hole.start, end, shift));
        self.index_moved(hole, rest);
        self.map.mark_block(hole.start);
        self.map.mark_hole(end);
        if let Some(counters) = &mut self.counters {
            counters.splits += 1;
            counters.blocks += 1;
        }
        (hole.start, end)
    }

    #[cold]
    fn carve_behind_gap(&mut self, hole: Hole, gap: usize, need: &Need, note: impl FnOnce(Change)) -> (usize, usize) {
        let front = Hole { start: hole.start, len: gap };
        let start = front.end();
        let rest = Hole { start: start + need.len, len: hole.len - gap - need.len };
        let split = rest.len >= self.state.min_remainder as usize;
        let end = if split { rest.start } else { hole.end() };
        note(Change::of_granules(hole.start, hole.end(), start, end, self.state.shift()));
        self.index_moved(hole, front);
        self.map.mark_block(start);
        if split {
            self.index_insert(rest);
            self.map.mark_hole(rest.start);
        }
        if let Some(counters) = &mut self.counters {
            counters.splits += 1 + u64::from(split);
            counters.blocks += 1 + u64::from(split);
            counters.holes += u64::from(split);
        }
        (start, end)
    }

    /// Cuts the block that `need` describes from the wilderness, which fits it, and returns its start and end.
    #[inline(always)]
    pub(super) fn carve_wilderness(&mut self, need: &Need, note: impl FnOnce(Change)) -> (usize, usize) {
        let bottom = self.state.top;
        let gap = need.gap(bottom);
        let start = bottom + gap;
        let mut end = start + need.len;
        let rest = self.state.end - end;
        let split = rest >= self.state.min_remainder as usize;
        if !split {
            end = self.state.end;
        }
        note(Change::of_granules(bottom, self.state.end, start, end, self.state.shift()));
        self.map.mark_block(end);
        self.state.top = end;
        self.raise_index();
        if gap != 0 {
            self.index_insert(Hole { start: bottom, len: gap });
            self.map.mark_block(start);
            self.map.mark_hole(bottom);
        }
        if let Some(counters) = &mut self.counters {
            let cuts = u64::from(split) + u64::from(gap != 0);
            counters.splits += cuts;
            counters.blocks += cuts;
            // The wilderness was one hole; it may remain, and the gap is another.
            counters.holes = counters.holes + cuts - 1;
        }
        (start, end)
    }

    /// Frees the used block `[start, start + len)` and merges it with its free neighbours.
    ///
    /// ```text
    ///   | used | BLOCK | used |        | hole | BLOCK | used |
    ///   | used | BLOCK | hole |        | hole | BLOCK | hole |      (hole on the right: perhaps the wilderness)
    /// ```
    #[inline(always)]
    pub(super) fn release(&mut self, start: usize, len: usize, note: impl FnOnce(Change)) -> Freed {
        let end = start + len;
        let shift = self.state.shift();
        if let Some(counters) = &mut self.counters {
            counters.frees += 1;
            counters.live -= (len << shift) as u64;
        }
        let hole = if self.is_behind_pending(start, end) {
            self.lengthen_pending(start, end, note)
        } else {
            self.join_neighbours(start, end, note)
        };
        Freed {
            offset: start << shift,
            size: len << shift,
            hole_offset: hole.start << shift,
            hole_size: hole.len << shift,
        }
    }

    /// The block `[start, end)` becomes one with the holes beside it.
    #[inline(always)]
    fn join_neighbours(&mut self, start: usize, end: usize, note: impl FnOnce(Change)) -> Hole {
        let before = if start == 0 { 0 } else { self.map.prev_start(start) };
        let left = start != 0 && self.map.is_hole(before);
        let from = if left { before } else { start };
        let free = |to| Change::of_granules(from, to, from, from, self.state.shift());
        if end == self.state.top {
            note(free(self.state.end));
            self.release_at_top(start, before, left)
        } else if self.map.is_hole(end) {
            let right = self.map.hole_at(end);
            note(free(right.end()));
            if left {
                self.index_remove(right);
                self.map.unmark(end);
                let merged = Hole { start: before, len: right.end() - before };
                self.index_moved(Hole { start: before, len: start - before }, merged);
                self.map.unmark(start);
                self.count_merges(2, -1);
                merged
            } else {
                let merged = Hole { start, len: right.end() - start };
                self.index_moved(right, merged);
                self.map.unmark(end);
                self.map.mark_hole(start);
                self.count_merges(1, 0);
                merged
            }
        } else if left {
            note(free(end));
            let merged = Hole { start: before, len: end - before };
            self.index_moved(Hole { start: before, len: start - before }, merged);
            self.map.unmark(start);
            self.count_merges(1, 0);
            merged
        } else {
            note(free(end));
            let hole = Hole { start, len: end - start };
            self.index_insert(hole);
            self.map.mark_hole(start);
            self.count_merges(0, 1);
            hole
        }
    }

    /// Whether the block lies right behind the pending hole and before a used one, as blocks do that are freed in a row.
    #[inline(always)]
    fn is_behind_pending(&self, start: usize, end: usize) -> bool {
        if !self.map.has_summary() {
            return false;
        }
        let pending = self.map.pending();
        pending.len != 0 && pending.end() == start && end != self.state.top && !self.map.is_hole(end)
    }

    /// The block lies right behind the pending hole and before a used one: the hole becomes longer, and no index is asked.
    #[inline(always)]
    fn lengthen_pending(&mut self, start: usize, end: usize, note: impl FnOnce(Change)) -> Hole {
        let from = self.map.pending().start;
        note(Change::of_granules(from, end, from, from, self.state.shift()));
        let longer = Hole { start: from, len: end - from };
        self.map.set_pending(longer);
        self.map.unmark(start);
        self.count_merges(1, 0);
        longer
    }

    /// The block is the last: it joins the wilderness, and so does the hole before it.
    #[inline(always)]
    fn release_at_top(&mut self, start: usize, before: usize, left: bool) -> Hole {
        let merges = i64::from(self.state.top < self.state.end) + i64::from(left);
        self.map.unmark(self.state.top);
        let mut top = start;
        if left {
            self.index_remove(Hole { start: before, len: start - before });
            self.map.unmark(start);
            self.map.mark_block(before);
            top = before;
        }
        self.state.top = top;
        self.count_merges(merges as u64, 1 - merges);
        Hole { start: top, len: self.state.end - top }
    }

    /// `merges` pairs of neighbours became one; the number of holes changed by `holes`.
    #[inline(always)]
    pub(super) fn count_merges(&mut self, merges: u64, holes: i64) {
        if let Some(counters) = &mut self.counters {
            counters.coalesces += merges;
            counters.blocks -= merges;
            counters.holes = counters.holes.wrapping_add_signed(holes);
        }
    }
}
