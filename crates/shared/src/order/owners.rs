//! The owner of every block: one byte at the block's first granule, which names a slot of the process table.

use std::sync::atomic::Ordering::Relaxed;

use heapwright_placement::{Block, BlockState, Engine};

use crate::format::process_slot::{FORGOTTEN_CLOSED, Owner, ProcessState};
use crate::mapped::engine::Placer;
use crate::mapped::sections::Sections;
use crate::slabs::marks;
use crate::slabs::parts::{each_part, slab_owner};

/// The blocks of one owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) blocks: u64,
    pub(crate) bytes: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, bytes: usize) {
        self.blocks += 1;
        self.bytes += bytes as u64;
    }
}

/// Passes the used blocks and the numbers of their owners, in address order.
fn each_owned_block(sections: &Sections, engine: &Placer, mut pass: impl FnMut(Block, u8)) {
    for block in engine.blocks().filter(|block| block.state == BlockState::Used) {
        each_part(sections, block, |part, owner| {
            if part.state == BlockState::Used {
                pass(part, owner);
            }
        });
    }
}

/// Counts the blocks of each of the 256 possible owners. Time: proportional to the heap.
pub(crate) fn count_blocks(sections: &Sections, engine: &Placer) -> [Tally; 256] {
    let mut tallies = [Tally::default(); 256];
    each_owned_block(sections, engine, |block, owner| tallies[usize::from(owner)].add(block.size));
    tallies
}

/// Returns how many blocks each of the 256 possible owners must at least be counted to have, so that its slot stays its
/// own: blocks of the engine, slabs, and one for all blocks in slabs of others. Time: proportional to the heap.
///
/// A free of a block of the engine takes one away whatever else names the slot. Blocks in slabs of others therefore
/// need one of their own; their frees take none away.
pub(crate) fn count_names(sections: &Sections, engine: &Placer) -> [u64; 256] {
    let mut names = [0; 256];
    let mut has_blocks_elsewhere = [false; 256];
    for block in engine.blocks().filter(|block| block.state == BlockState::Used) {
        match slab_owner(sections, block) {
            None => names[usize::from(sections.owner_of(block.offset))] += 1,
            Some(slab_owner) => {
                names[usize::from(slab_owner)] += 1;
                each_part(sections, block, |part, owner| {
                    has_blocks_elsewhere[usize::from(owner)] |= part.state == BlockState::Used && owner != slab_owner;
                });
            }
        }
    }
    names.iter_mut().zip(has_blocks_elsewhere).for_each(|(names, elsewhere)| *names += u64::from(elsewhere));
    names
}

/// Gives all blocks of the first of each pair to the second. Cut short, some are given and some not, and the first
/// still stand in the table.
pub(crate) fn relabel(sections: &Sections, engine: &Placer, names: &[(u8, u8)]) {
    let mut new: [u8; 256] = std::array::from_fn(|number| number as u8);
    names.iter().for_each(|&(from, to)| new[usize::from(from)] = to);
    each_owned_block(sections, engine, |block, was| {
        let now = new[usize::from(was)];
        if let Some(owner) = sections.owner(block.offset).filter(|_| now != was) {
            // A block of a slab may be freed and allocated by another meanwhile.
            let _ = owner.compare_exchange(was, now, Relaxed, Relaxed);
        }
    });
    marks::rename(sections, engine.heap_size(), &new);
}

/// The processes that the numbers in owner bytes stand for; asks the system once for each process.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    by_number: Vec<Known>,
}

/// The owner that a slot stands for, and the words of the slot from which it was found.
#[derive(Debug, Default)]
struct Known {
    words: (u64, u64),
    owner: Option<Owner>,
}

impl Owners {
    pub(crate) fn of(sections: &Sections) -> Owners {
        let mut owners = Owners::default();
        owners.refresh(sections);
        owners
    }

    /// Updates the owners of those slots that have changed.
    pub(crate) fn refresh(&mut self, sections: &Sections) {
        let (slots, deaths) = (sections.slots(), sections.deaths());
        self.by_number.resize_with(slots.len(), Known::default);
        for (known, slot) in self.by_number.iter_mut().zip(slots) {
            let words = slot.words();
            if words != known.words {
                *known = Known { words, owner: slot.owner(deaths) };
            }
        }
    }

    /// Returns the process that `number` stands for. A number that no slot has stands for one that has been forgotten.
    pub(crate) fn get(&self, number: u8) -> Owner {
        let forgotten = |state| Owner { pid: None, state };
        match number {
            FORGOTTEN_CLOSED => forgotten(ProcessState::Closed),
            _ => {
                let known = self.by_number.get(usize::from(number));
                known.and_then(|known| known.owner).unwrap_or(forgotten(ProcessState::Dead))
            }
        }
    }
}
