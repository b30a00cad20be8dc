//! Passes changes of holes to the index, with one hole pending: see [`pending`](crate::map::BlockMap::pending).

use crate::heap::Heap;
use crate::index::Update;
use crate::map::Hole;

impl<'m, I: Update<'m> + ?Sized> Heap<'m, I> {
    /// Inserts the pending hole, if there is one, into the index; part of every allocation.
    #[inline(always)]
    pub(super) fn settle_pending(&mut self) {
        let hole = self.map.pending();
        if hole.len != 0 {
            self.map.set_pending(Hole::NONE, 0);
            self.index.insert(&mut self.map, self.state.height, hole);
        }
    }

    /// Does the same as [`Heap::settle_pending`], where a hole is rarely pending.
    #[inline(always)]
    fn settle_rarely(&mut self) {
        if self.map.pending().len != 0 {
            self.settle_apart();
        }
    }

    #[cold]
    #[inline(never)]
    fn settle_apart(&mut self) {
        self.settle_pending();
    }

    /// Records a new hole; its insertion into the index may be deferred.
    #[inline(always)]
    pub(super) fn index_insert(&mut self, hole: Hole) {
        self.index_joined(hole, 0);
    }

    /// Records a new hole, of which `absorbed` granules were holes before.
    #[inline(always)]
    pub(super) fn index_joined(&mut self, hole: Hole, absorbed: usize) {
        if self.map.has_summary() {
            self.settle_rarely();
            self.map.set_pending(hole, absorbed);
        }
    }

    /// Records that a hole becomes a part of `merged`, which is recorded next.
    #[inline(always)]
    pub(super) fn index_absorb(&mut self, hole: Hole, merged: Hole) {
        if self.map.has_summary() && !self.takes_back(hole) {
            self.settle_rarely();
            self.index.absorb(&mut self.map, self.state.height, hole, merged);
        }
    }

    /// Removes a hole. Settles the pending hole first, so that the index is never asked to remove a hole that it does
    /// not contain.
    #[inline(always)]
    pub(super) fn index_remove(&mut self, hole: Hole) {
        if self.map.has_summary() && !self.takes_back(hole) {
            self.settle_rarely();
            self.index.remove(&mut self.map, self.state.height, hole);
        }
    }

    /// Records a change of a hole's start, length or both.
    #[inline(always)]
    pub(super) fn index_moved(&mut self, from: Hole, to: Hole) {
        if !self.map.has_summary() {
            return;
        }
        if self.takes_back(from) {
            self.map.set_pending(to, 0);
        } else {
            self.settle_rarely();
            self.index.moved(&mut self.map, self.state.height, from, to);
        }
    }

    /// Makes the index contain nothing of `pending`, the pending hole.
    #[inline(always)]
    pub(super) fn discard_pending(&mut self, pending: Hole) {
        if self.map.pending_absorbed() {
            self.index.discard(&mut self.map, self.state.height, pending);
        }
    }

    /// Removes a hole that is pending; returns whether it was.
    #[inline(always)]
    fn takes_back(&mut self, hole: Hole) -> bool {
        let is_pending = self.map.pending() == hole;
        if is_pending {
            self.discard_pending(hole);
            self.map.set_pending(Hole::NONE, 0);
        }
        is_pending
    }
}
