//! Cuts a block from a hole, and frees it.

use crate::engine::Freed;
use crate::error::FreeError;
use crate::heap::Heap;
use crate::index::{AnyIndex, Index};
use crate::map::Hole;
use crate::noted::Change;
use crate::state::Need;

impl<'m, I: Index<'m>> Heap<'m, I> {
    /// Cuts the block that `need` describes from `hole`, which fits it, and returns its start and end. If a hole
    /// is pending, it is this one: the choice settled any other.
    ///
    /// ```text
    ///   |         hole          |          |           hole           |
    ///   | block  |  remainder   |          | gap |  block  | remainder|   (gap: only for alignment)
    /// ```
    #[inline(always)]
    pub(super) fn carve(&mut self, hole: Hole, need: &Need, note: impl FnOnce(Change)) -> (usize, usize) {
        let gap = need.gap(hole.start);
        if gap != 0 {
            return self.shared(move |heap| heap.carve_behind_gap(hole, gap, need, note));
        }
        let split = hole.len - need.len >= self.state.min_remainder as usize;
        let end = if split { hole.start + need.len } else { hole.end() };
        note(Change::of_granules(hole.start, hole.end(), hole.start, end, self.state.shift()));
        let rest = Hole { start: if split { end } else { hole.start }, len: hole.end() - end };
        if self.map.has_summary() {
            if self.map.pending().len == 0 {
                self.index.moved(&mut self.map, self.state.height, hole, rest);
            } else {
                self.discard_pending(hole);
                self.map.set_pending(if split { rest } else { Hole::NONE }, 0);
            }
        }
        self.map.mark_taken(hole.start);
        self.map.mark_cut(end, rest.len);
        if let Some(counters) = &mut self.counters {
            counters.splits += u64::from(split);
            counters.blocks += u64::from(split);
            counters.holes -= u64::from(!split);
        }
        (hole.start, end)
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
            self.shared(move |heap| heap.settle_gap(Hole { start: bottom, len: gap }));
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

    /// Frees the used block at `offset`, requested with `bytes` bytes if the caller provides the size, and merges it
    /// with its free neighbours.
    ///
    /// ```text
    ///   | used | BLOCK | used |        | hole | BLOCK | used |
    ///   | used | BLOCK | hole |        | hole | BLOCK | hole |      (hole on the right: perhaps the wilderness)
    /// ```
    #[inline(never)]
    pub(super) fn free(
        &mut self,
        offset: usize,
        bytes: Option<usize>,
        note: impl FnOnce(Change),
    ) -> Result<Freed, FreeError> {
        let start = self.used_block(offset).ok_or_else(|| self.diagnose(offset))?;
        let end = self.map.next_start(start);
        let shift = self.state.shift();
        if bytes.is_some_and(|bytes| bytes > (end - start - usize::from(self.state.header)) << shift) {
            return Err(FreeError::WrongSize);
        }
        let size = (end - start) << shift;
        if let Some(counters) = &mut self.counters {
            counters.frees += 1;
            counters.unsized_frees += u64::from(bytes.is_none());
            counters.released += bytes.unwrap_or(0) as u64;
            counters.live -= size as u64;
        }
        let hole = if self.is_behind_pending(start, end) {
            self.lengthen_pending(start, end, note)
        } else {
            self.join_neighbours(start, end, note)
        };
        Ok(Freed { offset: start << shift, size, hole_offset: hole.start << shift, hole_size: hole.len << shift })
    }

    /// Merges the block `[start, end)` with the holes next to it.
    #[inline(always)]
    fn join_neighbours(&mut self, start: usize, end: usize, note: impl FnOnce(Change)) -> Hole {
        let before = if start == 0 { 0 } else { self.map.prev_start(start) };
        let from = if start != 0 && self.map.is_hole(before) { before } else { start };
        let left = Hole { start: from, len: start - from };
        let free = |to| Change::of_granules(from, to, from, from, self.state.shift());
        if end == self.state.top {
            note(free(self.state.end));
            return self.release_at_top(start, left);
        }
        let right = if self.map.is_hole(end) { self.map.hole_at(end) } else { Hole::NONE };
        let merged = Hole { start: from, len: end - from + right.len };
        note(free(merged.end()));
        if right.len != 0 {
            self.index_absorb(right, merged);
            self.map.unmark(end);
        }
        if left.len != 0 && !self.index.lengthens() {
            self.index_absorb(left, merged);
        }
        self.map.mark_freed(start, left.len);
        self.index_joined(merged, left.len + right.len);
        let merges = u64::from(left.len != 0) + u64::from(right.len != 0);
        self.count_merges(merges, 1 - merges as i64);
        merged
    }

    /// Returns whether the block lies right behind the pending hole and before a used one, as blocks do that are freed
    /// in a row.
    #[inline(always)]
    fn is_behind_pending(&self, start: usize, end: usize) -> bool {
        if !self.map.has_summary() {
            return false;
        }
        let pending = self.map.pending();
        pending.len != 0 && pending.end() == start && end != self.state.top && !self.map.is_hole(end)
    }

    /// Extends the pending hole by the block right behind it, before a used one; the index is not accessed.
    #[inline(always)]
    fn lengthen_pending(&mut self, start: usize, end: usize, note: impl FnOnce(Change)) -> Hole {
        let from = self.map.pending().start;
        note(Change::of_granules(from, end, from, from, self.state.shift()));
        let longer = Hole { start: from, len: end - from };
        self.map.lengthen_pending(end);
        self.map.unmark(start);
        self.count_merges(1, 0);
        longer
    }

    /// Merges the last block with the wilderness, together with the hole before it.
    #[inline(always)]
    fn release_at_top(&mut self, start: usize, left: Hole) -> Hole {
        let merges = i64::from(self.state.top < self.state.end) + i64::from(left.len != 0);
        self.map.unmark(self.state.top);
        if left.len != 0 {
            self.shared(move |heap| heap.index_remove_rarely(left));
            self.map.unmark(start);
            self.map.mark_taken(left.start);
        }
        self.state.top = left.start;
        self.count_merges(merges as u64, 1 - merges);
        Hole { start: left.start, len: self.state.end - left.start }
    }
}

impl<'m> Heap<'m, AnyIndex<'m>> {
    #[cold]
    #[inline(never)]
    fn carve_behind_gap(&mut self, hole: Hole, gap: usize, need: &Need, note: impl FnOnce(Change)) -> (usize, usize) {
        let front = Hole { start: hole.start, len: gap };
        let start = front.end();
        let rest = Hole { start: start + need.len, len: hole.len - gap - need.len };
        let split = rest.len >= self.state.min_remainder as usize;
        let end = if split { rest.start } else { hole.end() };
        note(Change::of_granules(hole.start, hole.end(), start, end, self.state.shift()));
        self.index_moved_rarely(hole, front);
        self.map.mark_block(start);
        if split {
            self.index_insert_rarely(rest);
            self.map.mark_hole(rest.start);
        }
        if let Some(counters) = &mut self.counters {
            counters.splits += 1 + u64::from(split);
            counters.blocks += 1 + u64::from(split);
            counters.holes += u64::from(split);
        }
        (start, end)
    }

    /// `gap`, the beginning of the wilderness, becomes a hole before a block that was cut from it.
    #[cold]
    #[inline(never)]
    fn settle_gap(&mut self, gap: Hole) {
        self.index_insert_rarely(gap);
        self.map.mark_block(gap.end());
        self.map.mark_hole(gap.start);
    }
}

impl<I: ?Sized> Heap<'_, I> {
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
