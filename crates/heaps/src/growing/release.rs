//! Frees, and the purging that follows them.

use core::alloc::Layout;
use core::ops::Range;
use core::ptr::NonNull;

use heapwright_os::{PageRange, page_size};
use heapwright_placement::{Block, BlockState, Engine, FreeError, Freed, Growth, PolicyKind};

use super::GrowingHeap;
use super::batch::Batch;
use super::extend::Short;
use super::sweep::{LEAST, PageReturns};
use crate::policy::Policy;

/// Returns what is purged with a range of pages and the hole in which it lies: see [`GrowingHeap::purge_beside`].
pub type PurgedBeside = fn(Range<usize>, Range<usize>) -> Option<PageRange>;

impl<P: Policy> GrowingHeap<P> {
    /// Frees a block that was allocated for `layout`.
    ///
    /// # Errors
    /// [`FreeError`] when `block` is not the start of a live block, or that block is too short for `layout`. Every such
    /// error is detected, and the heap is unchanged.
    ///
    /// # Safety
    /// If a live block starts at `block`, it is not used any more.
    #[inline]
    pub unsafe fn deallocate(&mut self, block: NonNull<u8>, layout: Layout) -> Result<(), FreeError> {
        let freed = self.placement.engine.deallocate_sized(self.offset(block), self.requests.raised(layout.size()))?;
        self.note(&freed);
        Ok(())
    }

    /// Frees a block of unknown size. From then on the heap cannot compute its internal fragmentation.
    ///
    /// # Errors
    /// As [`GrowingHeap::deallocate`].
    ///
    /// # Safety
    /// If a live block starts at `block`, it is not used any more.
    #[inline(always)]
    pub unsafe fn deallocate_unsized(&mut self, block: NonNull<u8>) -> Result<(), FreeError> {
        let freed = self.placement.engine.deallocate(self.offset(block))?;
        self.note(&freed);
        Ok(())
    }

    /// Marks the pages that a free made part of a hole, and sweeps when many are pending.
    #[inline(always)]
    pub(super) fn note(&mut self, freed: &Freed) {
        if self.dirty.mark(freed) && self.dirty.bytes() > self.sweep.from {
            self.sweep(freed.size);
        }
    }

    /// Purges some of the pending pages, if they are more than are retained; the next frees go on until few are left.
    /// The work is bounded by the bytes that were freed.
    #[cold]
    #[inline(never)]
    fn sweep(&mut self, freed: usize) {
        let engine = &self.placement.engine;
        let live = engine.counters().map(|counters| counters.live as usize);
        let part = live.unwrap_or(engine.top()) / self.keep_part;
        let pending = self.dirty.bytes();
        if !self.sweep.is_under_way && pending <= self.keep.max(part) {
            return;
        }
        // Without statistics it is not known what was placed meanwhile.
        if pending <= live.map_or(0, |live| self.sweep.observe(live, pending, part)) {
            self.dirty.is_watched = true;
            return self.sweep.end(self.keep);
        }
        let purged = self.trim_some(LEAST.max(2 * freed));
        self.sweep.record_purge(purged, self.dirty.bytes(), self.keep);
        self.dirty.is_watched = self.sweep.is_under_way;
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

    /// Purges as [`GrowingHeap::trim`] the highest pages that came to lie in holes since the last sweep, up to `most`
    /// bytes of them, at least one page; returns how many bytes were purged. Most policies take low holes again first.
    pub fn trim_some(&mut self, most: usize) -> usize {
        let before = self.returns.bytes;
        self.trim_weighed(most, |_| 0);
        (self.returns.bytes - before) as usize
    }

    /// As [`GrowingHeap::trim_some`]; returns what the purged ranges, and those that were purged beside them, weighed
    /// before. A range can be one that was never in memory.
    pub fn trim_weighed(&mut self, most: usize, weigh: fn(&PageRange) -> usize) -> usize {
        let mut left = (most / page_size()).max(1);
        let (mut batch, mut beside, mut end) = (Batch::weighed_by(weigh), Batch::weighed_by(weigh), usize::MAX);
        while left != 0
            && let Some(run) = self.dirty.take_run(0..end, left)
        {
            end = run.start;
            left -= run.len();
            self.add_holes(run.start * page_size(), run.end * page_size(), &mut batch, &mut beside);
        }
        // SAFETY: the ranges lie in holes, in which no block was placed meanwhile, and beside them in tables of these.
        unsafe {
            batch.purge();
            beside.purge();
        }
        self.returns.sweeps += 1;
        self.returns.runs += batch.runs;
        self.returns.bytes += batch.purged as u64;
        batch.weighed + beside.weighed
    }

    /// Adds the whole pages between two page boundaries that lie in holes to a batch; purges it when it is full, or no
    /// larger one is of use. What is to be purged beside them is added to another.
    fn add_holes(&self, from: usize, to: usize, batch: &mut Batch, beside: &mut Batch) {
        let page = page_size();
        let mut at = from;
        while at < to
            && let Some(Block { offset, size, state }) = self.placement.engine.block_containing(at)
        {
            let end = (offset + size).min(to).min(self.region.committed()) & !(page - 1);
            if state == BlockState::Free && at < end {
                // SAFETY: the ranges lie in holes, whose contents no program uses.
                unsafe { batch.add(PageRange { start: self.region.pointer(at), length: end - at }) };
                if let Some(range) = (self.beside)(at..end, offset..offset + size) {
                    // SAFETY: the range can be purged, as `purge_beside` requires of the function.
                    unsafe { beside.add(range) };
                }
            }
            at = end.max(at + page);
        }
    }

    /// Purges from now on, with each range of pages in a hole, what `beside` returns for the two, as offsets: pages of
    /// tables of the caller that say nothing about other blocks.
    ///
    /// # Safety
    /// What `beside` returns is private anonymous memory, whole pages, whose contents are not needed while there is no
    /// block in the hole.
    pub unsafe fn purge_beside(&mut self, beside: PurgedBeside) {
        self.beside = beside;
    }

    /// Gives back the pages behind the last block, and their addresses, if they are at least `least` bytes (not 0):
    /// limits on address space and data no longer count them. Returns how many bytes were given back. The heap is as
    /// long as before under buddies, and if it does not grow.
    ///
    /// Blocks are placed as if this had not been called, unless the heap [weighs the
    /// wilderness](GrowingHeap::weighs_wilderness), which becomes shorter.
    ///
    /// Time: proportional to the pages behind the last block that came to lie in holes since the last sweep.
    pub fn retract(&mut self, least: usize) -> usize {
        // A part of the wilderness stays.
        let end = self.whole_steps(self.placement.engine.top() + 1);
        let reach = self.reach(end, self.short);
        let is_worth_it = end.checked_add(least).is_some_and(|enough| enough <= self.region.committed());
        let before = self.placement.engine.heap_size();
        if !is_worth_it || reach.end >= before || !P::move_end(&mut self.placement.engine, reach.end) {
            return 0;
        }
        // SAFETY: no block reaches above the top.
        let bytes = unsafe { self.region.retract(end) };
        if bytes != 0 {
            self.dirty.forget_from(end / page_size());
            // The heap reached further until now, so that the metadata is mapped and the marks cover it.
            P::set_limit(&mut self.placement.engine, reach);
        } else {
            P::move_end(&mut self.placement.engine, before);
        }
        bytes
    }

    /// Takes back that the heap was [retracted](GrowingHeap::retract) from these lengths of the heap and of its memory,
    /// if the system has the memory.
    pub(super) fn restore(&mut self, heap_size: usize, committed: usize) {
        if self.extend_exactly(self.region.committed(), committed, Short::AsBefore).is_ok() {
            P::move_end(&mut self.placement.engine, heap_size);
        }
    }

    /// Returns whether the length of the wilderness, the free tail, decides where blocks go: under next, best, worst
    /// and random fit, under buddies, and where blocks are appended behind it. Otherwise it is taken last, and extended
    /// by what is missing.
    #[must_use]
    pub fn weighs_wilderness(&self) -> bool {
        let is_taken_last = matches!(P::kind(self.design.choice), PolicyKind::First | PolicyKind::Good);
        !is_taken_last || self.design.rules.growth == Growth::Append
    }

    /// Has the pages of a block, which was just placed and consists of whole pages, not counted as
    /// [pending](GrowingHeap::pending) any more. Returns whether all of them were: such a block is most likely resident
    /// and causes no page faults.
    ///
    /// Time: proportional to the length of the block, a nanosecond per MiB.
    pub fn take_pending(&mut self, block: NonNull<u8>, bytes: usize) -> bool {
        let first = self.dirty.page_at(self.offset(block));
        self.dirty.unmark(first..first + self.dirty.page_at(bytes))
    }

    /// Returns the bytes of pages that came to lie in holes and were not purged since. Some may be used again, unless
    /// [`GrowingHeap::take_pending`] is called for each block.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.dirty.bytes()
    }

    /// Returns how much has been purged so far.
    #[must_use]
    pub fn returns(&self) -> PageReturns {
        self.returns
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;
    use crate::Chosen;
    use crate::growing::Settings;

    /// What was purged once is neither looked at nor weighed again, however long the heap is.
    #[test]
    fn trimming_weighs_what_was_freed_since_the_last_time() {
        const LENGTH: usize = 1 << 20;
        let mut heap = GrowingHeap::<Chosen>::with(PolicyKind::First, &Settings::default()).unwrap();
        let layout = Layout::from_size_align(LENGTH, 16).unwrap();
        let blocks: [NonNull<u8>; 8] = core::array::from_fn(|_| heap.allocate(layout).unwrap());
        let mut free = |place: usize, weighed: usize| {
            // SAFETY: the block is this heap's, and not used any more.
            unsafe { heap.deallocate(blocks[place], layout) }.unwrap();
            let purged = heap.trim_weighed(usize::MAX, |range| range.length / 2);
            assert!((weighed - page_size()..=weighed).contains(&purged), "{purged} of {weighed}");
            assert_eq!(heap.trim_weighed(usize::MAX, |_| panic!("a range is weighed again")), 0);
        };
        free(1, LENGTH / 2);
        free(5, LENGTH / 2);
        // The pages that it shares with its neighbours go with it.
        free(4, LENGTH / 2 + page_size());
    }

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
