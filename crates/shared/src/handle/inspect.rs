//! What is in a heap.

use std::vec;

use heapwright_placement::{Block, BlockState, Counters, Engine, HoleStats};

use crate::format::process_slot::{Owner, ProcessState};
use crate::handle::heap::{Section, SharedHeap};
use crate::mapped::engine::{self, Placer};
use crate::mapped::sections::Sections;
use crate::order::beyond;
use crate::order::owners::{Owners, Tally};
use crate::order::processes;
use crate::slabs::marks;
use crate::slabs::parts;
use crate::slabs::parts::each_part;
use crate::terms::error::Error;
use crate::terms::offset::Offset;

/// A block, used or free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockInfo {
    /// Where it starts.
    pub offset: Offset,
    /// Its length in bytes.
    pub size: usize,
    /// Used or free.
    pub state: BlockState,
    /// The process that allocated it; `None` for a hole.
    pub owner: Option<Owner>,
}

/// A process that is, or was, attached, and what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessInfo {
    /// Its number, and what became of it.
    pub owner: Owner,
    /// How many blocks it has.
    pub blocks: u64,
    /// How many bytes those are.
    pub bytes: u64,
}

impl SharedHeap {
    /// Returns what has happened in the heap since it was made. An operation that a death cut short may be counted or
    /// not.
    ///
    /// `mallocs` and `frees` count blocks, of slabs and others; a resize that moves a block counts as both. In a heap
    /// with slabs, all other counters are about what the policy has placed, and count a slab as one block of 32 KiB.
    ///
    /// # Errors
    /// Those of every operation: [`Error::TimedOut`], [`Error::Corrupted`].
    pub fn counters(&self) -> Result<Counters, Error> {
        let mut section = self.enter()?;
        let counters = section.engine().counters().unwrap_or_default();
        Ok(parts::count_blocks_of_slabs(section.mapping(), counters))
    }

    /// Returns the number of times that a process completed or undid what a dead one left.
    ///
    /// # Errors
    /// Those of every operation.
    pub fn recoveries(&self) -> Result<u64, Error> {
        Ok(self.enter()?.mapping().header().live.recoveries())
    }

    /// Returns the sizes of the holes. Time: proportional to the heap.
    ///
    /// # Errors
    /// Those of every operation.
    pub fn holes(&self) -> Result<HoleStats, Error> {
        Ok(self.enter()?.engine().holes())
    }

    /// Returns all blocks in address order, used and free, as [`SharedHeap::walk`] finds them. Time: proportional to
    /// the heap.
    ///
    /// # Errors
    /// Those of every operation.
    pub fn blocks(&self) -> Result<Vec<BlockInfo>, Error> {
        self.walk().collect()
    }

    /// Walks the blocks in address order, used and free. The lock is held for a bounded number of blocks at a time, and
    /// not while the caller has one.
    ///
    /// Others may change the heap meanwhile. What is there throughout, and stays as long as it is, is found once; what
    /// is allocated, freed or resized meanwhile is found or not, as it was at some moment. No two that are found
    /// overlap.
    #[must_use]
    pub fn walk(&self) -> Walk<'_> {
        Walk { heap: self, owners: Owners::default(), portion: Vec::new().into_iter(), next: Some(0) }
    }

    /// Verifies every invariant of the heap, and that roots point at used blocks. Time: proportional to the heap.
    ///
    /// # Errors
    /// [`Error::Corrupted`] with the first invariant that does not hold; [`Error::TimedOut`]. If it is one of the
    /// metadata by which blocks are placed, the handle refuses all further operations, which would trust it: repair the
    /// segment, and open it anew.
    pub fn check(&self) -> Result<(), Error> {
        let mut section = self.enter()?;
        if let Err(found) = section.check_placement() {
            section.view().refuse(&found);
            self.lane.refuse();
            return Err(found);
        }
        processes::check_counts(section.mapping(), section.engine())?;
        section.check_roots()
    }

    /// Returns the processes that are attached, and those which have left blocks: closed ones and dead ones. A process
    /// that has opened the segment several times is listed for each. Time: proportional to the heap; what others change
    /// meanwhile is counted as by [`SharedHeap::walk`].
    ///
    /// # Errors
    /// Those of every operation.
    pub fn processes(&self) -> Result<Vec<ProcessInfo>, Error> {
        let mut tallies = [Tally::default(); 256];
        let mut next = Some(0);
        while let Some(from) = next {
            let portion = self.enter()?.portion(from);
            next = portion.next;
            for (block, owner) in portion.used() {
                tallies[usize::from(owner)].add(block.size);
            }
        }
        let mut owners = Owners::default();
        owners.refresh(self.enter()?.mapping());
        Ok(listed(&owners, &tallies))
    }

    /// Returns the blocks of processes that died, as [`SharedHeap::walk`] finds them. Time: proportional to the heap.
    ///
    /// # Errors
    /// Those of every operation.
    pub fn left_behind(&self) -> Result<Vec<BlockInfo>, Error> {
        let of_the_dead = |block: &BlockInfo| block.owner.is_some_and(|owner| owner.state == ProcessState::Dead);
        self.walk().filter(|block| block.as_ref().map_or(true, of_the_dead)).collect()
    }
}

/// How many blocks are looked at before others get their turn at the lock.
const PORTION: usize = 1 << 10;

/// Some blocks, used and free, with the numbers of their owners.
struct Portion {
    blocks: Vec<(Block, u8)>,
    /// Where the next portion begins.
    next: Option<usize>,
}

impl Portion {
    fn used(&self) -> impl Iterator<Item = (Block, u8)> {
        self.blocks.iter().copied().filter(|(block, _)| block.state == BlockState::Used)
    }
}

impl Section<'_> {
    /// Verifies what blocks are placed by.
    fn check_placement(&mut self) -> Result<(), Error> {
        let mapping = self.mapping();
        engine::check(mapping, self.engine())?;
        marks::check(mapping, self.engine())?;
        match beyond::verify(mapping, self.engine().heap_size()) {
            // What lies there cannot be read any more, nor can the heap grow.
            Err(Error::DescriptorReplaced { .. }) => Ok(()),
            verified => verified,
        }
    }

    /// Returns the next blocks from `from` on, where a block ended a while ago. One that begins before has come into
    /// being since, or is a hole that has grown, and is passed over.
    fn portion(&mut self, from: usize) -> Portion {
        let mapping = self.mapping();
        let (mut blocks, mut next) = (Vec::with_capacity(PORTION), from);
        for _ in 0..PORTION {
            let Some(block) = self.engine().block_containing(next) else { return Portion { blocks, next: None } };
            if block.offset >= next {
                each_part(mapping, block, |part, owner| blocks.push((part, owner)));
            }
            next = block.offset + block.size;
            if blocks.len() >= PORTION {
                break;
            }
        }
        Portion { blocks, next: Some(next) }
    }
}

/// The blocks of a heap in address order: see [`SharedHeap::walk`]. It ends after an error.
#[derive(Debug)]
pub struct Walk<'h> {
    heap: &'h SharedHeap,
    owners: Owners,
    portion: vec::IntoIter<(Block, u8)>,
    next: Option<usize>,
}

impl Walk<'_> {
    /// Reads the next portion. There may be no block in it.
    fn read_on(&mut self, from: usize) -> Result<(), Error> {
        let mut section = self.heap.enter()?;
        let portion = section.portion(from);
        self.owners.refresh(section.mapping());
        (self.portion, self.next) = (portion.blocks.into_iter(), portion.next);
        Ok(())
    }
}

impl Iterator for Walk<'_> {
    type Item = Result<BlockInfo, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((block, owner)) = self.portion.next() {
                return Some(Ok(describe(&self.heap.mapping, block, owner, &self.owners)));
            }
            let from = self.next.take()?;
            if let Err(error) = self.read_on(from) {
                return Some(Err(error));
            }
        }
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

/// Returns all blocks in address order.
pub(crate) fn describe_blocks(sections: &Sections, engine: &Placer, owners: &Owners) -> Vec<BlockInfo> {
    let mut described = Vec::new();
    for block in engine.blocks() {
        each_part(sections, block, |part, owner| described.push(describe(sections, part, owner, owners)));
    }
    described
}

fn describe(sections: &Sections, block: Block, owner: u8, owners: &Owners) -> BlockInfo {
    BlockInfo {
        // SAFETY: data does not begin at 0.
        offset: unsafe { Offset::new_unchecked((sections.layout.data + block.offset) as u64) },
        size: block.size,
        state: block.state,
        owner: (block.state == BlockState::Used).then(|| owners.get(owner)),
    }
}
