//! Blocks that no root leads to: freed.

use heapwright_placement::{Block, BlockState, Engine};

use crate::format::root_slot::RootSlot;
use crate::handle::heap::{Section, SharedHeap};
use crate::handle::reclaim::{Leavers, Reclaimed};
use crate::order::owners::Owners;
use crate::slabs::parts::{each_part, used_block};
use crate::terms::error::Error;
use crate::terms::offset::{Offset, Offsets};

/// A reachable block, as a trace function gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traced {
    /// Where it starts.
    pub offset: Offset,
    /// Its length in bytes.
    pub size: usize,
}

impl SharedHeap {
    /// Frees the blocks of processes that have left, if no root leads to them.
    ///
    /// `trace` is called once for each reachable block and calls its second argument with each offset that the block
    /// contains. An offset into the middle of a block counts for the block; one that lies in no used block, 0 included,
    /// is ignored, so that links may be damaged or form circles. Blocks of attached processes are kept, reachable or
    /// not: they may be in flight. A process that takes a block of another out of reach, to keep it,
    /// [adopts](SharedHeap::adopt) it before.
    ///
    /// In a heap made with slabs, no process may free a block of one that left meanwhile but by
    /// [`SharedHeap::free_from`] and [`SharedHeap::resize_into`]: as with [`SharedHeap::reclaim_dead`].
    ///
    /// The heap's lock is held throughout: links that are changed only by [`SharedHeap::allocate_into`],
    /// [`SharedHeap::resize_into`] and [`SharedHeap::free_from`] stay as they are meanwhile. Links that processes store
    /// themselves must not change; hold the mutex that protects them. `trace` must not use the heap but for
    /// [`SharedHeap::pointer`]. Time and memory: proportional to the number of blocks and offsets, whatever they are;
    /// others wait, up to their patience.
    ///
    /// # Errors
    /// Those of every operation: [`Error::TimedOut`], [`Error::Corrupted`]; what was freed stays freed.
    pub fn reclaim_unreachable(
        &self,
        leavers: Leavers,
        trace: impl FnMut(Traced, &mut dyn FnMut(Offset)),
    ) -> Result<Reclaimed, Error> {
        let reclaimed = {
            let mut section = self.enter()?;
            let reachable = section.reachable(trace);
            section.reclaim_others(leavers, &reachable)?
        };
        self.tidy_slabs()?;
        Ok(reclaimed)
    }
}

impl Section<'_> {
    /// Returns the places of the blocks that roots lead to.
    fn reachable(&mut self, mut trace: impl FnMut(Traced, &mut dyn FnMut(Offset))) -> Offsets<usize> {
        let (mut reached, mut pending) = (Offsets::default(), Vec::new());
        for root in self.mapping().roots().iter().filter_map(RootSlot::offset) {
            self.reach(root, &mut reached, &mut pending);
        }
        while let Some(block) = pending.pop() {
            let traced = Traced { offset: self.mapping().offset_at(block.offset), size: block.size };
            trace(traced, &mut |offset| self.reach(offset, &mut reached, &mut pending));
        }
        reached
    }

    /// Notes the used block that contains `offset`, unless it is noted: `pending` gets each block once.
    fn reach(&mut self, offset: Offset, reached: &mut Offsets<usize>, pending: &mut Vec<Block>) {
        let Ok(place) = self.place_of(offset) else { return };
        let used = used_block(self.mapping(), self.engine(), place);
        if let Some(block) = used.filter(|block| reached.insert(block.offset)) {
            pending.push(block);
        }
    }

    fn reclaim_others(&mut self, leavers: Leavers, reachable: &Offsets<usize>) -> Result<Reclaimed, Error> {
        let mapping = self.mapping();
        let owners = Owners::of(mapping);
        let (mut reclaimed, mut place) = (Reclaimed::default(), 0);
        while let Some(block) = self.engine().block_containing(place) {
            place = block.offset + block.size;
            let mut unreachable = Vec::new();
            each_part(mapping, block, |part, owner| {
                if part.state == BlockState::Free || !leavers.include(owners.get(owner).state) {
                    return;
                }
                if reachable.contains(&part.offset) {
                    reclaimed.kept += 1;
                } else {
                    unreachable.push(part);
                }
            });
            unreachable.into_iter().try_for_each(|part| self.reclaim_part(part, &mut reclaimed))?;
        }
        Ok(reclaimed)
    }
}
