//! Resizes a block in place.

use crate::error::ResizeError;
use crate::heap::Heap;
use crate::index::class_map::CLASSES;
use crate::index::{AnyIndex, Index};
use crate::map::Hole;
use crate::noted::Change;
use crate::rules::Growth;

impl<'m, I: Index<'m>> Heap<'m, I> {
    /// Refuses a resize that would leave a short block or hole beyond the limit for those.
    pub(super) fn shun_short_resize(&mut self, offset: usize, new: usize) -> Result<(), ResizeError> {
        let Some(limit) = self.index.short_limit().map(|limit| limit.granule) else { return Ok(()) };
        let start = self.used_block(offset).ok_or(ResizeError::NotABlock)?;
        let granules = self.state.granules(new).ok_or(ResizeError::NoRoom)?;
        let (end, wanted) = (self.map.next_start(start), start + usize::from(self.state.header) + granules);
        let is_before_hole = end != self.state.top && self.map.is_hole(end);
        let behind = if is_before_hole { self.map.hole_at(end).end() } else { end.max(wanted) };
        let is_short = |len: usize| (1..=CLASSES).contains(&len);
        if behind > limit && (is_short(wanted - start) || is_short(behind.saturating_sub(wanted))) {
            if let Some(limit) = self.index.short_limit() {
                limit.missing = behind;
            }
            return Err(ResizeError::NoRoom);
        }
        Ok(())
    }
}

impl<'m> Heap<'m, AnyIndex<'m>> {
    #[inline(never)]
    pub(super) fn resize_in_place(
        &mut self,
        offset: usize,
        old: usize,
        new: usize,
        note: impl FnOnce(Change),
    ) -> Result<(), ResizeError> {
        let start = self.used_block(offset).ok_or(ResizeError::NotABlock)?;
        let granules = self.state.granules(new).ok_or(ResizeError::NoRoom)?;
        let end = self.map.next_start(start);
        let shift = self.state.shift();
        let payload = start + usize::from(self.state.header);
        let old = old.min((end - payload) << shift);
        let wanted = payload + granules;
        let note = |to, used_to| note(Change::of_granules(start, to, start, used_to, shift));
        let settled = if wanted > end { self.lengthen(end, wanted, note)? } else { self.shorten(end, wanted, note) };
        if let Some(counters) = &mut self.counters {
            counters.resizes += 1;
            counters.requested += new.saturating_sub(old) as u64;
            counters.rounded += self.state.rounded_growth(old, new);
            counters.released += old.saturating_sub(new) as u64;
            counters.live = counters.live.wrapping_add_signed(((settled as i64) - (end as i64)) << shift);
            counters.peak_live = counters.peak_live.max(counters.live);
        }
        Ok(())
    }

    /// Moves the end of a used block from `end` up to `wanted` or, when too little would remain, to the end of the hole
    /// behind it; returns the block's new end. Passes to `note` the end of the range that changes, and of the block.
    fn lengthen(&mut self, end: usize, wanted: usize, note: impl FnOnce(usize, usize)) -> Result<usize, ResizeError> {
        if end == self.state.top {
            return self.lengthen_last(wanted, note);
        }
        if !self.map.is_hole(end) {
            return Err(ResizeError::NoRoom);
        }
        let hole = self.map.hole_at(end);
        if hole.end() < wanted {
            return Err(ResizeError::NoRoom);
        }
        let rest = Hole { start: wanted, len: hole.end() - wanted };
        if rest.len < self.state.min_remainder as usize {
            note(hole.end(), hole.end());
            self.index_remove_rarely(hole);
            self.map.unmark(end);
            self.count_merges(1, -1);
            return Ok(hole.end());
        }
        note(hole.end(), wanted);
        self.index_moved_rarely(hole, rest);
        self.map.unmark(end);
        self.map.mark_hole(wanted);
        Ok(wanted)
    }

    /// Extends the last block into the wilderness, and grows the heap when that is too short.
    fn lengthen_last(&mut self, wanted: usize, note: impl FnOnce(usize, usize)) -> Result<usize, ResizeError> {
        let had = self.state.wilderness() > 0;
        let mut end = self.state.end;
        if wanted > end {
            if self.state.growth() == Growth::Append || wanted > self.limit {
                return Err(ResizeError::NoRoom);
            }
            end = self.grown_end(wanted).ok_or(ResizeError::NoRoom)?;
        }
        let keep = end - wanted >= self.state.min_remainder as usize;
        let settled = if keep { wanted } else { end };
        note(end, settled);
        if end != self.state.end {
            self.set_end(end);
        }
        match (had, keep) {
            (true, false) => self.count_merges(1, -1),
            (false, true) => self.count_split(),
            _ => {}
        }
        self.map.unmark(self.state.top);
        self.map.mark_block(settled);
        self.state.top = settled;
        self.raise_rarely();
        Ok(settled)
    }

    /// Moves the end of a used block from `end` down to `wanted`, unless the freed range is too short to be a hole.
    fn shorten(&mut self, end: usize, wanted: usize, note: impl FnOnce(usize, usize)) -> usize {
        if wanted == end {
            return end;
        }
        if end == self.state.top {
            return self.shorten_last(end, wanted, note);
        }
        if self.map.is_hole(end) {
            let hole = self.map.hole_at(end);
            note(hole.end(), wanted);
            self.index_moved_rarely(hole, Hole { start: wanted, len: hole.end() - wanted });
            self.map.unmark(end);
            self.map.mark_hole(wanted);
            return wanted;
        }
        if end - wanted < self.state.min_remainder as usize {
            return end;
        }
        note(end, wanted);
        self.index_insert_rarely(Hole { start: wanted, len: end - wanted });
        self.map.mark_hole(wanted);
        self.count_split();
        wanted
    }

    fn shorten_last(&mut self, end: usize, wanted: usize, note: impl FnOnce(usize, usize)) -> usize {
        let had = end < self.state.end;
        if !had && end - wanted < self.state.min_remainder as usize {
            return end;
        }
        note(self.state.end, wanted);
        if !had {
            self.count_split();
        }
        self.map.unmark(end);
        self.map.mark_block(wanted);
        self.state.top = wanted;
        wanted
    }
}
