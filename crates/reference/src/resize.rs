//! Resizes a block in place.

use heapwright_placement::{Growth, PolicyKind};

use super::{Reference, Run};

impl Reference {
    /// Resizes the block at `index` to hold `bytes`; returns its new length, or `None` without any change.
    ///
    /// Moving the boundary to an existing hole is neither a split nor a coalesce. Creating a hole after the block is a
    /// split, absorbing one is a coalesce.
    pub(super) fn resize_in_place(&mut self, index: usize, bytes: usize) -> Option<usize> {
        let len = self.granules(bytes).checked_add(self.header())?;
        if self.policy == PolicyKind::Buddy {
            return self.resize_buddy(index, len);
        }
        let run = self.runs[index];
        let behind = self.runs.get(index + 1).copied().filter(Run::is_hole);
        let room_end = behind.map_or(run.end(), |hole| hole.end());
        let wanted = run.start.checked_add(len)?;
        let room_end = if wanted > room_end { self.extend_for_resize(index, wanted)? } else { room_end };
        let rest = room_end - wanted;
        let shortens_into_hole = wanted <= run.end() && behind.is_some();
        let keeps_hole = rest > 0 && (shortens_into_hole || rest >= self.min_remainder());
        let end = if keeps_hole { wanted } else { room_end };
        self.runs[index] = Run::used(run.start, end - run.start);
        match (behind, keeps_hole) {
            (Some(_), true) => self.runs[index + 1] = Run::hole(end, rest),
            (None, true) => {
                self.runs.insert(index + 1, Run::hole(end, rest));
                self.history.splits += 1;
            }
            (Some(_), false) => {
                self.runs.remove(index + 1);
                self.history.coalesces += 1;
            }
            (None, false) => {}
        }
        self.record_heap_size();
        Some(end - run.start)
    }

    /// Returns the end of the heap if it grows so that the block at `index`, which must be the last, can reach
    /// `wanted`.
    fn extend_for_resize(&self, index: usize, wanted: usize) -> Option<usize> {
        let is_last = match &self.runs[index + 1..] {
            [] => true,
            [last] => last.is_hole(),
            _ => false,
        };
        if !is_last || self.rules.growth == Growth::Append {
            return None;
        }
        self.end_by_rule(wanted)
    }
}
