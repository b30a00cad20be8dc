//! Putting a heap of buddies together again.

use core::ptr::NonNull;

use super::{Buddy, order_at};
use crate::counters::{Census, reconcile};
use crate::error::Violation;
use crate::noted::Change;
use crate::recover::{RecoverError, settle};
use crate::rules::PolicyKind;
use crate::store::begin_recovery;

impl<'m> Buddy<'m> {
    /// Takes up a heap whose last user may have died in the middle of an operation: see
    /// [`AnyEngine::recover`](crate::AnyEngine::recover).
    ///
    /// # Errors
    /// [`RecoverError`].
    ///
    /// # Safety
    /// As [`Fit::recover`](crate::Fit::recover).
    pub unsafe fn recover(
        metadata: NonNull<u64>,
        cells: usize,
        capacity: usize,
        change: Option<Change>,
    ) -> Result<Self, RecoverError> {
        // SAFETY: the caller's promise; the block is found to be as long as all its parts, and whatever it contains,
        // integers are read from it.
        let mut buddy = unsafe {
            let state = begin_recovery(metadata, cells, PolicyKind::Buddy, capacity, Self::sections)?;
            Self::over(metadata, state)
        };
        settle(&mut buddy.map, buddy.state, change)?;
        let census = buddy.cut_free_runs()?;
        buddy.map.put_block(buddy.state.end);
        buddy.map.summarise_all(buddy.state.end);
        buddy.index_free_blocks();
        if let Some(counters) = &mut buddy.counters {
            reconcile(counters, &census);
        }
        Ok(buddy)
    }

    /// Divides every run of free granules into the fewest blocks: where frees join buddies at once, it is in no other
    /// state.
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
        Ok(Census {
            at_creation: self.blocks_at_creation(),
            blocks: used + holes,
            holes,
            live: (live << shift) as u64,
            heap_size: (end << shift) as u64,
        })
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

    /// Tells the free sets, which are empty, of every free block.
    fn index_free_blocks(&mut self) {
        let end = self.state.end;
        let mut at = 0;
        while at < end {
            let next = self.map.next_start_below(at, end);
            if self.map.is_hole(at) {
                self.free.insert((next - at).ilog2(), at);
            }
            at = next;
        }
    }
}
