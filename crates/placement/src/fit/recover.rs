//! Putting a heap of the fits together again.

use core::ptr::NonNull;
use core::sync::atomic::{Ordering, compiler_fence};

use super::Fit;
use crate::counters::{Census, reconcile};
use crate::index::{Choose, Index};
use crate::map::Hole;
use crate::noted::Change;
use crate::recover::{RecoverError, settle};
use crate::store::begin_recovery;

impl<'m, P: Choose> Fit<'m, P> {
    /// Takes up a heap whose last user may have died in the middle of an operation: see
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
        change: Option<Change>,
    ) -> Result<Self, RecoverError> {
        // SAFETY: the caller's promise; the block is found to be as long as all its parts, and whatever it contains,
        // integers are read from it.
        let mut fit = unsafe {
            let state = begin_recovery(metadata, cells, P::KIND, capacity, Self::sections)?;
            Self::over(metadata, state)
        };
        settle(&mut fit.map, fit.state, change)?;
        let census = fit.merge_holes();
        fit.map.summarise_all(fit.state.end);
        fit.index_holes();
        if let Some(counters) = &mut fit.counters {
            reconcile(counters, &census);
        }
        Ok(fit)
    }

    /// Makes one hole of holes that touch, and the last one the wilderness.
    fn merge_holes(&mut self) -> Census {
        let end = self.state.end;
        let (mut at, mut run) = (0, None);
        let (mut blocks, mut holes, mut live) = (0, 0, 0);
        while at < end {
            let next = self.map.next_start_below(at, end);
            if !self.map.is_hole(at) {
                run = None;
                live += next - at;
                blocks += 1;
            } else if run.is_some() {
                self.map.wipe(at, at + 1);
            } else {
                run = Some(at);
                holes += 1;
            }
            at = next;
        }
        // In this order: a start that is no hole would be a used block if the wilderness did not begin there yet.
        self.state.top = run.unwrap_or(end);
        compiler_fence(Ordering::SeqCst);
        self.map.put_block(self.state.top);
        let shift = self.state.shift();
        Census {
            at_creation: self.state.blocks_at_creation(),
            blocks: blocks + holes,
            holes,
            live: (live << shift) as u64,
            heap_size: (end << shift) as u64,
        }
    }

    /// Tells the index, which is empty, of every hole but the wilderness.
    fn index_holes(&mut self) {
        self.raise_index();
        if !self.map.has_summary() {
            return;
        }
        let mut at = 0;
        while at < self.state.top {
            let next = self.map.next_start(at);
            if self.map.is_hole(at) {
                self.index.insert(&mut self.map, self.state.height, Hole { start: at, len: next - at });
            }
            at = next;
        }
    }
}
