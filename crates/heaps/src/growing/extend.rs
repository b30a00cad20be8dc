//! Growth: memory for blocks, for the engine's metadata and for the marks of pages, extended together.

use core::alloc::Layout;

use heapwright_os::{Refused, page_size};
use heapwright_placement::{Engine, Growth, PolicyKind, Reach, buddy_end, fit_end};

use super::{GrowingHeap, OutOfMemory};
use crate::policy::Policy;

/// The heap is extended by an eighth, at least by this many bytes, which keeps system calls few.
const LEAST_STEP: usize = 512 << 10;

/// The metadata of short blocks is mapped for at least this many bytes more.
const SHORT_STEP: usize = 32 << 20;

/// How far the metadata of short blocks is mapped when the heap is extended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Short {
    AsBefore,
    ToTheEnd,
}

impl<P: Policy> GrowingHeap<P> {
    /// Places a block that the engine refused. If metadata for short blocks was missing where the policy puts it, maps
    /// that. Otherwise no hole can contain it: extends the heap by what it needs, or a little more.
    #[cold]
    #[inline(never)]
    pub(super) fn place_behind(&mut self, layout: Layout) -> Result<usize, OutOfMemory> {
        self.place_in_more(layout).or_else(|OutOfMemory| {
            // The limit that refuses memory may count what lies behind the last block.
            let (heap_size, committed) = (self.placement.engine.heap_size(), self.region.committed());
            if !self.has_addresses_for(layout) || self.retract(page_size()) == 0 {
                return Err(OutOfMemory);
            }
            let placed = match self.placement.engine.allocate(layout.size(), layout.align()) {
                Ok(offset) => Ok(offset),
                Err(_) => self.place_in_more(layout),
            };
            if placed.is_err() {
                self.restore(heap_size, committed);
            }
            placed
        })
    }

    fn place_in_more(&mut self, layout: Layout) -> Result<usize, OutOfMemory> {
        let missing = P::missing(&mut self.placement.engine);
        if (1..=self.region.committed()).contains(&missing) {
            self.extend_short(missing).map_err(|Refused| OutOfMemory)?;
            return self.placement.engine.allocate(layout.size(), layout.align()).map_err(|_| OutOfMemory);
        }
        let end = self.end_with(layout).ok_or(OutOfMemory)?;
        let short = if missing == 0 { Short::AsBefore } else { Short::ToTheEnd };
        self.extend_to(end, short).map_err(|Refused| OutOfMemory)?;
        // No hole can contain it: there is no need to look at each again.
        self.placement.engine.allocate_soon(layout.size(), layout.align()).map_err(|_| OutOfMemory)
    }

    /// Returns where the heap ends when it is as long as a block behind all others requires.
    pub(super) fn end_with(&self, layout: Layout) -> Option<usize> {
        let engine = &self.placement.engine;
        if P::kind(self.design.choice) == PolicyKind::Buddy {
            let bytes = layout.size().checked_add(self.design.rules.header as usize)?;
            let length = bytes.max(layout.align()).max(self.granule).checked_next_power_of_two()?;
            let growth = self.design.rules.growth;
            return buddy_end(engine.heap_size(), length, growth, |offset| engine.block_containing(offset));
        }
        fit_end(engine, &self.design.rules, layout.size(), layout.align())
    }

    /// Maps the metadata of short blocks in the first `to` bytes, all of them committed, and, if the system has the
    /// memory, ahead of that.
    pub(super) fn extend_short(&mut self, to: usize) -> Result<(), Refused> {
        let ahead = (self.short / 8).max(SHORT_STEP);
        let generous = to.saturating_add(ahead).min(self.region.committed());
        self.extend_short_exactly(generous).or_else(|Refused| self.extend_short_exactly(to))
    }

    fn extend_short_exactly(&mut self, short: usize) -> Result<(), Refused> {
        let reach = self.reach(self.region.committed(), short);
        self.metadata.reach(&self.design, reach)?;
        self.short = short;
        P::set_limit(&mut self.placement.engine, reach);
        Ok(())
    }

    /// Extends the heap to `end` bytes and, if the system has the memory, ahead of that.
    pub(super) fn extend_to(&mut self, end: usize, short: Short) -> Result<(), Refused> {
        if end > self.design.capacity {
            return Err(Refused);
        }
        let (before, most) = (self.region.committed(), self.region.length());
        let whole = |bytes: usize| self.whole_steps(bytes).min(most);
        let least = whole(end);
        let ahead = (before / 8).max(LEAST_STEP).next_multiple_of(LEAST_STEP);
        let generous = whole(least.saturating_add(ahead));
        self.extend_exactly(before, generous, short).or_else(|Refused| self.extend_exactly(before, least, short))
    }

    /// Returns `bytes` and what is missing to a whole step, of a heap that grows by steps, and then to a whole page.
    pub(super) fn whole_steps(&self, bytes: usize) -> usize {
        let whole = |bytes: usize, unit: usize| bytes.checked_next_multiple_of(unit).unwrap_or(self.design.capacity);
        let steps = match self.design.rules.growth {
            Growth::Pages(step) => whole(bytes, step as usize),
            Growth::Fixed | Growth::Append | Growth::Extend => bytes,
        };
        whole(steps, page_size())
    }

    /// Returns how far the engine reaches where memory is committed up to `end`: to the capacity at most, which may end
    /// within a page; and to the end of a whole step, of a heap that grows by steps, except at its capacity. A step
    /// that ended with the memory would be too short, and the free tail not what the rule makes of it.
    pub(super) fn reach(&self, end: usize, short: usize) -> Reach {
        let end = match self.design.rules.growth {
            Growth::Pages(step) if end < self.design.capacity => end - end % step as usize,
            _ => end.min(self.design.capacity),
        };
        Reach { end, short: short.min(self.design.capacity) }
    }

    /// Extends the heap from `before` to `end` bytes, whole pages. Where that is refused, nothing has changed but the
    /// memory of the metadata.
    pub(super) fn extend_exactly(&mut self, before: usize, end: usize, short: Short) -> Result<(), Refused> {
        let short = if short == Short::ToTheEnd { end } else { self.short };
        let reach = self.reach(end, short);
        self.region.commit(end)?;
        let others = self.dirty.cover(end).and_then(|()| self.metadata.reach(&self.design, reach));
        if others.is_err() {
            self.region.uncommit(before);
            return others;
        }
        self.short = short;
        P::set_limit(&mut self.placement.engine, reach);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use core::alloc::Layout;

    use super::*;
    use crate::growing::Settings;

    /// Blocks of odd lengths, many of them longer than a step, so that memory is committed again and again. Then what
    /// they took is given back, and a block needs nearly all of the page that stays.
    #[test]
    fn a_heap_that_grows_by_steps_is_a_multiple_of_the_step() {
        for step in [48, 1008, 4096, 12_288, 64 << 10, 3 << 20, 100_000_016] {
            let settings = Settings { growth: Growth::Pages(step), ..Settings::default() };
            let mut heap = GrowingHeap::<crate::Chosen>::with(PolicyKind::Worst, &settings).unwrap();
            let allocate = |heap: &mut GrowingHeap<crate::Chosen>, length| {
                let block = heap.allocate(Layout::from_size_align(length, 1).unwrap()).unwrap();
                assert!(heap.heap_size().is_multiple_of(step as usize), "{} with {step}", heap.heap_size());
                block
            };
            let lengths: [usize; 199] = core::array::from_fn(|number| (number + 1) * 997);
            for block in lengths.map(|length| allocate(&mut heap, length)) {
                // SAFETY: the block is this heap's, and not used any more.
                unsafe { heap.deallocate_unsized(block) }.unwrap();
            }
            heap.retract(1);
            allocate(&mut heap, page_size() - 1);
        }
    }
}
