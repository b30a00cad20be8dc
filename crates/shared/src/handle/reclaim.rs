//! What processes left behind: freed, or taken over.

use std::sync::atomic::Ordering::Relaxed;

use heapwright_placement::{Block, BlockState, Engine};

use crate::format::process_slot::{ProcessSlot, ProcessState};
use crate::format::root_slot::RootSlot;
use crate::handle::heap::{Section, SharedHeap};
use crate::order::owners::Owners;
use crate::slabs::parts::{each_part, give_back, is_in_slab};
use crate::terms::error::Error;
use crate::terms::offset::{Offset, Offsets};

/// Whose blocks are reclaimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leavers {
    /// Those of processes that died.
    Dead,
    /// Also those of processes that closed the segment.
    DeadAndClosed,
}

/// What was reclaimed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// How many blocks were freed.
    pub blocks: u64,
    /// How many bytes those were.
    pub bytes: u64,
    /// How many blocks were kept because a root points at them.
    pub kept: u64,
}

/// How many blocks are looked at before others get their turn at the lock.
const BATCH: usize = 1 << 16;

impl SharedHeap {
    /// Frees the blocks of processes that died, but for those that a root points at.
    ///
    /// No process may free or adopt a block of the dead meanwhile: it may be reclaimed before.
    ///
    /// Blocks that are only reached from other blocks are freed as well: this is for data of which every process knows
    /// its own. Time: proportional to the heap; others get at it in between.
    ///
    /// # Errors
    /// Those of every operation: [`Error::TimedOut`], [`Error::Corrupted`]; what was freed stays freed.
    pub fn reclaim_dead(&self) -> Result<Reclaimed, Error> {
        self.reclaim(Leavers::Dead)
    }

    /// Frees the blocks of the processes that `leavers` names, as [`SharedHeap::reclaim_dead`] does.
    ///
    /// # Errors
    /// As [`SharedHeap::reclaim_dead`].
    pub fn reclaim(&self, leavers: Leavers) -> Result<Reclaimed, Error> {
        let mut reclaimed = Reclaimed::default();
        let mut next = Some(0);
        while let Some(place) = next {
            next = self.enter()?.reclaim_batch(place, leavers, &mut reclaimed)?;
        }
        self.tidy_slabs()?;
        Ok(reclaimed)
    }

    /// Makes this handle the owner of the block at `offset`, so that it is not reclaimed while this process lives.
    ///
    /// # Errors
    /// [`Error::NotABlock`], [`Error::AlreadyFree`], and those of every operation.
    pub fn adopt(&self, offset: Offset) -> Result<(), Error> {
        self.enter()?.adopt(offset)
    }
}

impl Section<'_> {
    /// Makes this handle the owner of a block.
    pub(crate) fn adopt(&mut self, offset: Offset) -> Result<(), Error> {
        let mapping = self.mapping();
        let (place, _) = self.block_at(offset)?;
        let number = self.view().slot;
        let owner = mapping.owner(place).ok_or(Error::NotABlock { offset: offset.get() })?;
        let before = owner.load(Relaxed);
        mapping.count_of(number, ProcessSlot::gain_block);
        owner.store(number, Relaxed);
        if !is_in_slab(mapping, place) {
            mapping.count_of(before, ProcessSlot::lose_block);
        }
        Ok(())
    }

    /// Reclaims among the next blocks from `place` on; returns where to go on.
    fn reclaim_batch(
        &mut self,
        mut place: usize,
        leavers: Leavers,
        reclaimed: &mut Reclaimed,
    ) -> Result<Option<usize>, Error> {
        let mapping = self.mapping();
        let owners = Owners::of(mapping);
        let rooted: Offsets<Offset> = mapping.roots().iter().filter_map(RootSlot::offset).collect();
        for _ in 0..BATCH {
            let Some(block) = self.engine().block_containing(place) else { return Ok(None) };
            place = block.offset + block.size;
            let mut abandoned = Vec::new();
            each_part(mapping, block, |part, owner| {
                if part.state == BlockState::Used && leavers.include(owners.get(owner).state) {
                    abandoned.push(part);
                }
            });
            for part in abandoned {
                if rooted.contains(&self.mapping().offset_at(part.offset)) {
                    reclaimed.kept += 1;
                } else {
                    self.reclaim_part(part, reclaimed)?;
                }
            }
        }
        Ok(Some(place))
    }

    /// Frees a block, of a slab or not.
    pub(crate) fn reclaim_part(&mut self, block: Block, reclaimed: &mut Reclaimed) -> Result<(), Error> {
        if is_in_slab(self.mapping(), block.offset) {
            let slot = self.view().slot;
            if !give_back(self.mapping(), slot, block.offset) {
                return Ok(());
            }
        } else {
            let offset = self.mapping().offset_at(block.offset).get();
            self.release(block.offset).map_err(|_| Error::NotABlock { offset })?;
        }
        reclaimed.blocks += 1;
        reclaimed.bytes += block.size as u64;
        Ok(())
    }
}

impl Leavers {
    pub(crate) fn include(self, state: ProcessState) -> bool {
        match state {
            ProcessState::Attached => false,
            ProcessState::Closed => self == Leavers::DeadAndClosed,
            ProcessState::Dead => true,
        }
    }
}
