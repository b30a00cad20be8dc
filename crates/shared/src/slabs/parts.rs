//! The blocks in slabs, for walks of a heap.

use heapwright_placement::{Block, BlockState, Counters, Engine};

use crate::format::bitmap::{NotLive, Words};
use crate::format::publication::Published;
use crate::format::slab::{SLAB, Slab, SlabCounts, Tenure};
use crate::mapped::engine::Placer;
use crate::mapped::sections::Sections;
use crate::terms::error::Error;

/// A block of a slab, live or not.
#[derive(Clone, Copy)]
pub(crate) struct Small<'s> {
    pub(crate) slab: Slab<'s>,
    pub(crate) tenure: Tenure,
    pub(crate) unit: usize,
    pub(crate) index: usize,
}

impl<'s> Small<'s> {
    /// Returns the block that begins at `place`, which lies in the heap; `None` if that lies in no slab.
    #[inline(always)]
    pub(crate) fn at(sections: &'s Sections, place: usize) -> Result<Option<Small<'s>>, NotLive> {
        let unit = place / SLAB;
        let Some(slab) = sections.slab(unit) else { return Ok(None) };
        let Some(tenure) = slab.tenure() else { return Ok(None) };
        match slab.index(place % SLAB, slab.shape.cut(usize::from(tenure.class))) {
            Some(index) => Ok(Some(Small { slab, tenure, unit, index })),
            None => Err(NotLive),
        }
    }

    pub(crate) fn class(&self) -> usize {
        usize::from(self.tenure.class)
    }

    /// Returns its length in bytes.
    pub(crate) fn size(&self) -> usize {
        self.slab.shape.size(self.class())
    }

    pub(crate) fn is_live(&self) -> bool {
        self.slab.is_live(self.index)
    }

    /// Returns the words of the bitmaps that have it, and its bit.
    #[inline(always)]
    pub(crate) fn words(&self) -> Option<(Words<'s>, u64)> {
        Some((self.slab.words(self.index / 64)?, 1 << (self.index % 64)))
    }

    /// Frees it for the process of `slot`, which does not own the slab.
    #[inline(always)]
    pub(crate) fn give(&self, sections: &Sections, slot: u8) -> Result<(), NotLive> {
        let (words, bit) = self.words().ok_or(NotLive)?;
        words.give(bit)?;
        sections.count_of_slabs(slot, SlabCounts::count_given);
        Ok(())
    }
}

/// Returns the slab that a block of the engine is, if it is one.
pub(crate) fn slab_in(sections: &Sections, block: Block) -> Option<(Slab<'_>, Tenure)> {
    sections.layout.shape?;
    if block.state != BlockState::Used || !block.offset.is_multiple_of(SLAB) || block.size != SLAB {
        return None;
    }
    let slab = sections.slab(block.offset / SLAB)?;
    slab.tenure().map(|tenure| (slab, tenure))
}

/// Returns the number of the owner of the slab that a block of the engine is, if it is one.
pub(crate) fn slab_owner(sections: &Sections, block: Block) -> Option<u8> {
    slab_in(sections, block).map(|(_, tenure)| tenure.slot)
}

/// Returns whether `place`, where a used block begins, lies in a slab.
pub(crate) fn is_in_slab(sections: &Sections, place: usize) -> bool {
    sections.slab(place / SLAB).is_some_and(|slab| slab.tenure().is_some())
}

/// Frees the block of a slab that begins at `place` for the process of `slot`, which does not own the slab. Returns
/// whether it was live.
pub(crate) fn give_back(sections: &Sections, slot: u8, place: usize) -> bool {
    Small::at(sections, place).is_ok_and(|small| small.is_some_and(|small| small.give(sections, slot).is_ok()))
}

/// Returns whether a slab begins at `place` in a heap of `size` bytes.
pub(crate) fn is_slab(sections: &Sections, size: usize, place: usize) -> bool {
    place.is_multiple_of(SLAB)
        && place + SLAB <= size
        && sections.slab(place / SLAB).is_some_and(|slab| slab.tenure().is_some())
}

/// Passes what a block of the engine consists of, with the numbers of owners: the block itself, or a slab's blocks and
/// the free stretches between them.
pub(crate) fn each_part(sections: &Sections, block: Block, mut pass: impl FnMut(Block, u8)) {
    let Some((slab, tenure)) = slab_in(sections, block) else {
        return pass(block, sections.owner_of(block.offset));
    };
    let class = usize::from(tenure.class);
    let size = slab.shape.size(class);
    let mut done = block.offset;
    for at in 0..slab.word_count(class) {
        let Some(words) = slab.words(at) else { break };
        let mut live = words.live() & slab.valid(class, at);
        while live != 0 {
            let place = block.offset + (at * 64 + live.trailing_zeros() as usize) * size;
            live &= live - 1;
            pass_free(done, place, &mut pass);
            pass(Block { offset: place, size, state: BlockState::Used }, sections.owner_of(place));
            done = place + size;
        }
    }
    pass_free(done, block.offset + SLAB, &mut pass);

    fn pass_free(from: usize, to: usize, pass: &mut impl FnMut(Block, u8)) {
        if from < to {
            pass(Block { offset: from, size: to - from, state: BlockState::Free }, u8::MAX);
        }
    }
}

/// Returns the length of the used block that begins at `place`, in a slab or not.
pub(crate) fn size_of_block(sections: &Sections, engine: &Placer, place: usize) -> Option<usize> {
    let small = if place < engine.heap_size() { Small::at(sections, place).ok()? } else { None };
    match small {
        Some(small) => small.is_live().then(|| small.size()),
        None => engine.usable_size(place),
    }
}

/// Returns the used block in which `place` lies, in a slab or not.
pub(crate) fn used_block(sections: &Sections, engine: &Placer, place: usize) -> Option<Block> {
    let block = engine.block_containing(place).filter(|block| block.state == BlockState::Used)?;
    let Some((slab, tenure)) = slab_in(sections, block) else { return Some(block) };
    let size = slab.shape.size(usize::from(tenure.class));
    let index = (place - block.offset) / size;
    let is_one = index < slab.shape.blocks(usize::from(tenure.class)) && slab.is_live(index);
    is_one.then(|| Block { offset: block.offset + index * size, size, state: BlockState::Used })
}

/// Makes live and free what an operation on record takes from slabs and gives back. Idempotent: the lock's dead holder
/// owned the slab from which it took, and the owner of the other leaves the freed block alone while that is on record.
pub(crate) fn redo(sections: &Sections, size: usize, published: &Published) -> Result<(), Error> {
    let block = |offset: u64| {
        let refused = Error::Corrupted { what: "the block on record is none", offset };
        let place = usize::try_from(offset).unwrap_or(0).wrapping_sub(sections.layout.data);
        let small = if place < size { Small::at(sections, place).ok().flatten() } else { None };
        small.and_then(|small| small.words()).ok_or(refused)
    };
    if published.taken != 0 {
        let (words, bit) = block(published.taken)?;
        words.take_again(bit);
    }
    if published.freed != 0 {
        let (words, bit) = block(published.freed)?;
        // It is not live if it was freed before.
        let _ = words.give(bit);
    }
    Ok(())
}

/// Makes of what the engine has counted counts of blocks: those of slabs instead of the slabs.
pub(crate) fn count_blocks_of_slabs(sections: &Sections, mut counters: Counters) -> Counters {
    for counts in (0..=u8::MAX).map_while(|slot| sections.slab_counts(slot)) {
        let ((taken, freed), (begun, ended)) = (counts.counts(), counts.slabs());
        counters.mallocs = counters.mallocs.wrapping_add(taken).wrapping_sub(begun);
        counters.frees = counters.frees.wrapping_add(freed).wrapping_sub(ended);
    }
    counters
}
