//! How far the pages in holes are purged, and how many are retained.

use heapwright_os::coarse_nanoseconds;
use heapwright_placement::Engine;

use super::GrowingHeap;
use crate::policy::Policy;
use crate::refaults::Refaults;

/// The least number of bytes that are purged at a time.
const LEAST: usize = 512 << 10;

/// Where purged pages are used again soon, this many times as much is retained of what is in use. Pages that were in a
/// hole count until a sweep, also those that are used again.
const REFAULTS_FACTOR: usize = 8;

/// How much a heap has purged so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageReturns {
    /// Number of searches for pages to purge, automatic or on request.
    pub sweeps: u64,
    /// Runs of pages purged.
    pub runs: u64,
    /// Bytes purged.
    pub bytes: u64,
}

/// The state of a heap's sweeps.
pub(super) struct Sweep {
    /// From this many pending bytes on, a free may have something to purge.
    pub(super) from: usize,
    /// Whether there were more pending bytes than are retained: all are purged, some at a time.
    is_under_way: bool,
    refaults: Refaults,
    /// The bytes in use and those pending after the last sweep.
    used: usize,
    pending: usize,
}

impl Sweep {
    pub(super) fn beyond(keep: usize) -> Sweep {
        Sweep { from: keep, is_under_way: false, refaults: Refaults::NONE, used: 0, pending: 0 }
    }

    /// Ends what is under way: pages are purged when there are more than `keep` pending bytes.
    fn end(&mut self, keep: usize) {
        (self.from, self.is_under_way) = (keep, false);
    }

    /// Observes what is in use and pending now. What was placed since the last sweep is in use now, or was freed and is
    /// pending. Returns what is retained because purged pages were used again, where it is usually `part`.
    fn observe(&mut self, used: usize, pending: usize, part: usize) -> usize {
        let most = part.saturating_mul(REFAULTS_FACTOR);
        let now = coarse_nanoseconds();
        let placed = (used + pending).saturating_sub(self.used + self.pending);
        self.refaults.forget(now);
        if self.refaults.are_possible() {
            self.refaults.observe_use(placed, most, now);
        }
        (self.used, self.pending) = (used, pending);
        self.refaults.retained().min(most)
    }
}

impl<P: Policy> GrowingHeap<P> {
    /// Purges some of the pending pages, if they are more than are retained; the next frees go on until few are left.
    /// The work is bounded by the bytes that were freed.
    #[cold]
    #[inline(never)]
    pub(super) fn sweep(&mut self, freed: usize) {
        let engine = &self.placement.engine;
        let live = engine.counters().map(|counters| counters.live as usize);
        let part = live.unwrap_or(engine.top()) / self.keep_part;
        let pending = self.dirty.bytes();
        if !self.sweep.is_under_way && pending <= self.keep.max(part) {
            return;
        }
        // Without statistics it is not known what was placed meanwhile.
        if pending <= live.map_or(0, |live| self.sweep.observe(live, pending, part)) {
            self.dirty.watch(true);
            return self.sweep.end(self.keep);
        }
        let purged = self.trim_some(LEAST.max(2 * freed));
        let sweep = &mut self.sweep;
        sweep.refaults.observe_purge(purged, coarse_nanoseconds());
        sweep.pending = self.dirty.bytes();
        sweep.is_under_way = sweep.pending > LEAST;
        sweep.from = if sweep.is_under_way { LEAST } else { self.keep };
        self.dirty.watch(sweep.is_under_way);
    }

    /// Purges every whole page that lies in a hole, and returns how many bytes that were.
    ///
    /// Time: proportional to the pages that came to lie in holes since the last sweep.
    pub fn trim(&mut self) -> usize {
        self.sweep.end(self.keep);
        self.trim_some(usize::MAX)
    }

    /// Sets how many bytes of pages in holes are retained, see [`Settings::keep`](super::Settings).
    pub fn set_keep(&mut self, bytes: usize) {
        // More is retained where what was purged is needed again.
        if bytes > self.keep || !self.sweep.is_under_way {
            self.sweep.end(bytes);
        }
        self.keep = bytes;
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use core::alloc::Layout;
    use core::ptr::NonNull;
    use std::vec::Vec;

    use super::*;
    use crate::Chosen;
    use crate::growing::Settings;
    use heapwright_placement::PolicyKind;

    const MEBIBYTE: usize = 1 << 20;

    /// Replaces blocks of other lengths in turns, with 100 MiB in use; returns what was allocated meanwhile.
    fn replace_in_turns(heap: &mut GrowingHeap<Chosen>, blocks: &mut [(NonNull<u8>, Layout)], rounds: usize) -> usize {
        let mut allocated = 0;
        for round in 0..rounds {
            let layout = Layout::from_size_align(MEBIBYTE / 2 + round * 7919 % MEBIBYTE, 16).unwrap();
            let place = round * 37 % blocks.len();
            let (block, old) = blocks[place];
            // SAFETY: the block is this heap's, and not used any more.
            unsafe { heap.deallocate(block, old) }.unwrap();
            blocks[place] = (heap.allocate(layout).unwrap(), layout);
            allocated += layout.size();
        }
        allocated
    }

    #[test]
    fn what_is_used_again_soon_is_retained_until_less_is_in_use() {
        let settings = Settings::default();
        for kind in [PolicyKind::First, PolicyKind::Best, PolicyKind::Next, PolicyKind::Worst, PolicyKind::Buddy] {
            let mut heap = GrowingHeap::<Chosen>::with(kind, &settings).unwrap();
            let layout = Layout::from_size_align(MEBIBYTE, 16).unwrap();
            let mut blocks: Vec<_> = (0..100).map(|_| (heap.allocate(layout).unwrap(), layout)).collect();
            let allocated = replace_in_turns(&mut heap, &mut blocks, 3000);
            let purged = heap.returns().bytes as usize;
            assert!(purged < allocated / 8, "{kind:?}: {purged} of {allocated} bytes were purged");
            for (block, layout) in blocks {
                // SAFETY: the block is this heap's, and not used any more.
                unsafe { heap.deallocate(block, layout) }.unwrap();
            }
            let pending = heap.pending();
            assert!(pending <= settings.keep, "{kind:?}: {pending} bytes are retained in an empty heap");
        }
    }
}
