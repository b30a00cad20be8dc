//! What is in a heap.

use heapwright_placement::{Block, BlockState, Counters, Engine, HoleStats};

use crate::engine::Placer;
use crate::error::Error;
use crate::heap::SharedHeap;
use crate::offset::Offset;
use crate::owners::{Owners, Tally, count_blocks, owner_of};
use crate::processes::{Owner, ProcessState};
use crate::sections::Sections;

/// A block, used or free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockInfo {
    /// Where it starts.
    pub offset: Offset,
    /// Its length in bytes.
    pub size: usize,
    /// Used or free.
    pub state: BlockState,
    /// Who allocated it; `None` for a hole.
    pub owner: Option<Owner>,
}

/// A process that is, or was, attached, and what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessInfo {
    /// Who it is and what became of it.
    pub owner: Owner,
    /// How many blocks it has.
    pub blocks: u64,
    /// How many bytes those are.
    pub bytes: u64,
}

impl SharedHeap {
    /// What has happened in the heap since it was made. Operations that a death cut short are not counted.
    ///
    /// # Errors
    /// Those of every operation: [`Error::TimedOut`], [`Error::Corrupted`].
    pub fn counters(&self) -> Result<Counters, Error> {
        Ok(self.enter()?.engine().counters().unwrap_or_default())
    }

    /// How often somebody completed or undid what a process left that had died.
    ///
    /// # Errors
    /// Those of every operation.
    pub fn recoveries(&self) -> Result<u64, Error> {
        Ok(self.enter()?.mapping().header().live.recoveries())
    }

    /// The sizes of the holes. Time: proportional to the heap.
    ///
    /// # Errors
    /// Those of every operation.
    pub fn holes(&self) -> Result<HoleStats, Error> {
        Ok(self.enter()?.engine().holes())
    }

    /// All blocks in address order, used and free. Time: proportional to the heap.
    ///
    /// # Errors
    /// Those of every operation.
    pub fn blocks(&self) -> Result<Vec<BlockInfo>, Error> {
        let mut section = self.enter()?;
        let owners = Owners::of(section.mapping().slots());
        Ok(describe_blocks(section.mapping(), section.engine(), &owners))
    }

    /// Verifies every invariant of the heap. Time: proportional to the heap.
    ///
    /// # Errors
    /// [`Error::Corrupted`] with the first invariant that does not hold; [`Error::TimedOut`].
    pub fn check(&self) -> Result<(), Error> {
        let mut section = self.enter()?;
        let base = section.mapping().layout.data;
        section.engine().check().map_err(|violation| Error::violated(violation, base))
    }

    /// The processes that are attached, and those which have left blocks: closed ones and dead ones. A process that has opened the
    /// segment several times is listed for each. Time: proportional to the heap.
    ///
    /// # Errors
    /// Those of every operation.
    pub fn processes(&self) -> Result<Vec<ProcessInfo>, Error> {
        let mut section = self.enter()?;
        let mapping = section.mapping();
        let owners = Owners::of(mapping.slots());
        let tallies = count_blocks(mapping, section.engine());
        Ok(listed(&owners, &tallies))
    }

    /// The blocks of processes that died. Time: proportional to the heap.
    ///
    /// # Errors
    /// Those of every operation.
    pub fn left_behind(&self) -> Result<Vec<BlockInfo>, Error> {
        let mut blocks = self.blocks()?;
        blocks.retain(|block| block.owner.is_some_and(|owner| owner.state == ProcessState::Dead));
        Ok(blocks)
    }
}

/// One line for each process that is attached or has blocks.
pub(crate) fn listed(owners: &Owners, tallies: &[Tally; 256]) -> Vec<ProcessInfo> {
    (0..=u8::MAX)
        .map(|number| (owners.get(number), tallies[usize::from(number)]))
        .filter(|(owner, tally)| tally.blocks > 0 || owner.state == ProcessState::Attached)
        .map(|(owner, Tally { blocks, bytes })| ProcessInfo { owner, blocks, bytes })
        .collect()
}

/// All blocks in address order.
pub(crate) fn describe_blocks(sections: &Sections, engine: &Placer, owners: &Owners) -> Vec<BlockInfo> {
    let describe = |block: Block| BlockInfo {
        // SAFETY: data does not begin at 0.
        offset: unsafe { Offset::new_unchecked((sections.layout.data + block.offset) as u64) },
        size: block.size,
        state: block.state,
        owner: (block.state == BlockState::Used).then(|| owners.get(owner_of(sections, block.offset))),
    };
    engine.blocks().map(describe).collect()
}
