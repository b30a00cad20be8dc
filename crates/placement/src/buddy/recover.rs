//! Recovery of a buddy heap.

use core::ptr::NonNull;

use super::{Buddy, FreeSets, order_at};
use crate::counters::{Census, reconcile};
use crate::error::Violation;
use crate::heap::Heap;
use crate::noted::Change;
use crate::recover::{RecoverError, settle};
use crate::rules::{PolicyKind, Rules};

impl<'m> Buddy<'m> {
    /// Returns whether the heap follows `rules`. Only damage to its metadata changes that.
    #[must_use]
    pub fn has_rules(&self, rules: &Rules) -> bool {
        self.heap.state.has_rules(rules)
    }

    /// Attaches to a heap whose last user may have died in the middle of an operation: see
    /// [`AnyEngine::recover`](crate::AnyEngine::recover).
    ///
    /// # Errors
    /// [`RecoverError`].
    ///
    /// # Safety
    /// `metadata` is valid for reads and writes of `cells` cells for `'m` and is used through nothing else.
    pub unsafe fn recover(
        metadata: NonNull<u64>,
        cells: usize,
        capacity: usize,
        rules: &Rules,
        change: Option<Change>,
    ) -> Result<Self, RecoverError> {
        // SAFETY: `metadata` is valid for `cells` cells for `'m` and used through nothing else, as this function
        // requires.
        let mut heap = unsafe { Heap::to_recover(PolicyKind::Buddy, metadata, cells, capacity, rules) }?;
        settle(&mut heap.map, heap.state, change)?;
        heap.rebuild()?;
        Ok(Buddy { heap })
    }
}

impl Heap<'_, FreeSets<'_>> {
    /// Rebuilds everything that is derived from the map.
    fn rebuild(&mut self) -> Result<(), Violation> {
        let census = self.cut_free_runs()?;
        self.map.put_block(self.state.end);
        self.map.summarise_all(self.state.end);
        self.index_free_blocks();
        if let Some(counters) = &mut self.counters {
            reconcile(counters, &census);
        }
        Ok(())
    }

    /// Divides every run of free granules into the fewest blocks. Frees join buddies at once, so that this is the only
    /// state of a free run.
    fn cut_free_runs(&mut self) -> Result<Census, Violation> {
        let (shift, end) = (self.state.shift(), self.state.end);
        let (mut at, mut run) = (0, None);
        let (mut used, mut holes, mut live) = (0, 0, 0);
        while at < end {
            let next = self.map.next_start_below(at, end);
            if self.map.is_hole(at) {
                run = run.or(Some(at));
            } else {
                let len = next - at;
                if !len.is_power_of_two() || at & (len - 1) != 0 {
                    let invariant = "a block is a power of two long and lies at a multiple of its length";
                    return Err(Violation { invariant, offset: at << shift });
                }
                holes += run.take().map_or(0, |start| self.cut_free_run(start, at));
                (used, live) = (used + 1, live + len);
            }
            at = next;
        }
        holes += run.map_or(0, |start| self.cut_free_run(start, end));
        Ok(self.census(self.blocks_at_creation(), used + holes, holes, live))
    }

    /// Divides the free granules `start..end` into the fewest blocks of powers of two; returns how many.
    fn cut_free_run(&mut self, start: usize, end: usize) -> u64 {
        self.map.wipe(start + 1, end);
        let (mut at, mut pieces) = (start, 0);
        while at < end {
            self.map.put_hole(at);
            at += 1 << order_at(at, end - at);
            pieces += 1;
        }
        pieces
    }

    /// Inserts every free block into the free sets, which are empty.
    fn index_free_blocks(&mut self) {
        let end = self.state.end;
        let mut at = 0;
        while at < end {
            let next = self.map.next_start_below(at, end);
            if self.map.is_hole(at) {
                self.index.insert((next - at).ilog2(), at);
            }
            at = next;
        }
    }
}
