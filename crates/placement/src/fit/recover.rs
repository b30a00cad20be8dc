//! Recovery of a heap of the fits.

use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{Ordering, compiler_fence};

use super::Fit;
use crate::counters::{Census, reconcile};
use crate::heap::Heap;
use crate::index::{Choose, Index};
use crate::map::Hole;
use crate::noted::Change;
use crate::recover::{RecoverError, settle};
use crate::rules::Rules;

impl<'m, P: Choose> Fit<'m, P> {
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
        let mut heap = unsafe { Heap::to_recover(P::KIND, metadata, cells, capacity, rules) }?;
        settle(&mut heap.map, heap.state, change)?;
        heap.rebuild();
        Ok(Fit { heap, _policy: PhantomData })
    }
}

impl<'m, I: Index<'m>> Heap<'m, I> {
    /// Rebuilds everything that is derived from the map.
    fn rebuild(&mut self) {
        let census = self.merge_holes();
        self.map.summarise_all(self.state.end);
        self.index_holes();
        if let Some(counters) = &mut self.counters {
            reconcile(counters, &census);
        }
    }

    /// Merges holes that touch, and turns the last one into the wilderness.
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
        // The order matters: no start may lie behind the wilderness, and a start that is not a hole would be a used
        // block if the wilderness did not begin there yet.
        compiler_fence(Ordering::SeqCst);
        self.state.top = run.unwrap_or(end);
        compiler_fence(Ordering::SeqCst);
        self.map.put_block(self.state.top);
        self.census(self.state.blocks_at_creation(), blocks + holes, holes, live)
    }

    /// Inserts every hole but the wilderness into the index, which is empty.
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
