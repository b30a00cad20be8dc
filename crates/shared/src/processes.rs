//! The process table: who is attached, and whom the blocks' owner bytes name.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst, compiler_fence};

use heapwright_os::{Deaths, Identity, Life};

use crate::engine::Placer;
use crate::error::Error;
use crate::owners::{FORGOTTEN_CLOSED, FORGOTTEN_DEAD, count_names, relabel};
use crate::sections::Sections;

/// The states, in the low bits of [`ProcessSlot::state`].
const FREE: u64 = 0;
const ATTACHED: u64 = 1;
const CLOSED: u64 = 2;
const STATE: u64 = 3;

/// One block in [`ProcessSlot::state`].
const BLOCK: u64 = STATE + 1;

/// A handle's entry as it lies in the segment; a process has one for every time that it has opened the segment.
///
/// Whoever attached and whoever has left stay listed while a block names them.
#[repr(C)]
pub(crate) struct ProcessSlot {
    /// The state, and in the bits above it how many blocks name the slot: as many, or more after a process died in an
    /// operation, but never fewer.
    state: AtomicU64,
    identity: AtomicU64,
}

/// What became of a process that is, or was, attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProcessState {
    /// It is attached and lives.
    Attached,
    /// It has closed the segment.
    Closed,
    /// It died without closing the segment.
    Dead,
}

/// Who has allocated a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// Its process number; `None` for those who had to make room in the process table and are remembered by their state
    /// only.
    pub pid: Option<u32>,
    /// What became of it.
    pub state: ProcessState,
}

impl ProcessSlot {
    pub(crate) fn identity(&self) -> Identity {
        Identity::from_word(self.identity.load(Relaxed))
    }

    /// What became of whom this slot is for; `None` for a free slot. Asks the system.
    pub(crate) fn state(&self, deaths: Deaths) -> Option<ProcessState> {
        match self.state.load(Relaxed) & STATE {
            FREE => None,
            CLOSED => Some(ProcessState::Closed),
            _ if deaths.life_of(self.identity()) == Life::Alive => Some(ProcessState::Attached),
            _ => Some(ProcessState::Dead),
        }
    }

    /// Whether the slot is free or its process has closed the segment. Without a call: another may be dead.
    pub(crate) fn has_left(&self) -> bool {
        matches!(self.state.load(Relaxed) & STATE, FREE | CLOSED)
    }

    /// The state and the identity, without the count.
    pub(crate) fn words(&self) -> (u64, u64) {
        (self.state.load(Relaxed) & STATE, self.identity.load(Relaxed))
    }

    fn blocks(&self) -> u64 {
        self.state.load(Relaxed) / BLOCK
    }

    pub(crate) fn owner(&self, deaths: Deaths) -> Option<Owner> {
        self.state(deaths).map(|state| Owner { pid: Some(self.identity().pid), state })
    }

    /// Counts a block before it names the slot for good: before the operation's record is cleared.
    #[inline(always)]
    pub(crate) fn gain_block(&self) {
        self.set_state(self.state.load(Relaxed).wrapping_add(BLOCK));
    }

    /// Counts a block that does not name the slot any more.
    #[inline(always)]
    pub(crate) fn lose_block(&self) {
        let state = self.state.load(Relaxed);
        self.set_state(state.checked_sub(BLOCK).unwrap_or(state));
    }

    fn set_blocks(&self, blocks: u64) {
        self.set_state(self.state.load(Relaxed) & STATE | (blocks * BLOCK));
    }

    /// From here on the process of this slot is known by another of its identities.
    pub(crate) fn rename(&self, me: Identity) {
        self.identity.store(me.word(), Relaxed);
    }

    /// Commits by the store of the state; until then the slot is free.
    pub(crate) fn take(&self, me: Identity) {
        self.vacate();
        self.identity.store(me.word(), Relaxed);
        self.set_state(ATTACHED);
    }

    /// Its process has left, and is listed on only while blocks name it. Commits by its only store.
    pub(crate) fn close(&self) {
        let blocks = self.blocks();
        self.set_state(if blocks == 0 { FREE } else { CLOSED | (blocks * BLOCK) });
    }

    /// No block names it any more.
    fn vacate(&self) {
        self.set_state(FREE);
    }

    #[inline(always)]
    fn set_state(&self, state: u64) {
        compiler_fence(SeqCst);
        self.state.store(state, Relaxed);
        compiler_fence(SeqCst);
    }
}

/// Whether a process is attached that lives, or may live.
pub(crate) fn any_alive(sections: &Sections) -> bool {
    one_alive(sections).is_some()
}

/// Returns the number of a process that is attached and lives, or may live.
pub(crate) fn one_alive(sections: &Sections) -> Option<u32> {
    let deaths = sections.deaths();
    let alive = sections.slots().iter().find(|slot| slot.state(deaths) == Some(ProcessState::Attached));
    alive.map(|slot| slot.identity().pid)
}

/// Returns the processes that have not closed the segment, dead or alive, with the numbers of their slots.
fn not_left(sections: &Sections) -> impl Iterator<Item = (u8, Identity)> {
    let numbered = sections.slots().iter().enumerate();
    let attached = numbered.filter(|(_, slot)| slot.state.load(Relaxed) & STATE == ATTACHED);
    attached.map(|(number, slot)| (number as u8, slot.identity()))
}

/// Returns why it is not certain of a process that has not closed the segment whether it lives, in words that follow
/// "because"; `None` if it is certain of all.
pub(crate) fn doubt(sections: &Sections) -> Option<&'static str> {
    let deaths = sections.deaths();
    not_left(sections).find_map(|(_, process)| deaths.doubt_about(process))
}

/// Whether it is certain of a process that has not left, or of the lock's holder, that it lives.
pub(crate) fn is_any_certain(sections: &Sections) -> bool {
    let deaths = sections.deaths();
    let lives = |process| deaths.doubt_about(process).is_none() && deaths.life_of(process) == Life::Alive;
    let attached = not_left(sections).map(|(_, process)| process);
    attached.chain(sections.header().lock.holder()).any(lives)
}

/// Verifies that no slot counts fewer blocks than name it. Time: proportional to the heap.
pub(crate) fn check_counts(sections: &Sections, engine: &Placer) -> Result<(), Error> {
    let names = count_names(sections, engine);
    match sections.slots().iter().zip(names).position(|(slot, names)| slot.blocks() < names) {
        None => Ok(()),
        Some(number) => Err(Error::Corrupted {
            what: "more blocks name a process than are counted",
            offset: (sections.layout.slots + number * size_of::<ProcessSlot>()) as u64,
        }),
    }
}

/// Counts anew how many blocks name each slot. Blocks that name a free slot, which only damage leads to, are from now
/// on those of somebody who died. Time: proportional to the heap.
pub(crate) fn count_anew(sections: &Sections, engine: &Placer) {
    let names = count_names(sections, engine);
    let mut nobodys = Vec::new();
    for (number, (slot, names)) in sections.slots().iter().zip(names).enumerate() {
        let is_free = slot.state.load(Relaxed) & STATE == FREE;
        slot.set_blocks(if is_free { 0 } else { names });
        if is_free && names > 0 {
            nobodys.push((number as u8, FORGOTTEN_DEAD));
        }
    }
    if !nobodys.is_empty() {
        relabel(sections, engine, &nobodys);
    }
}

/// Returns the numbers of the slots of processes that have not closed the segment, and of which it is not certain
/// whether they live.
pub(crate) fn doubtful(sections: &Sections) -> Vec<u8> {
    let deaths = sections.deaths();
    let doubtful = not_left(sections).filter(|&(_, process)| deaths.doubt_about(process).is_some());
    doubtful.map(|(number, _)| number).collect()
}

/// Frees these slots. Their blocks become blocks of a dead process whose number is not known. Called with the lock
/// held, when the heap is in order. Time: proportional to the heap.
pub(crate) fn hold_for_dead(sections: &Sections, engine: &Placer, numbers: &[u8]) {
    if !numbers.is_empty() {
        let names: Vec<(u8, u8)> = numbers.iter().map(|&number| (number, FORGOTTEN_DEAD)).collect();
        relabel(sections, engine, &names);
        numbers.iter().for_each(|&number| sections.slots()[usize::from(number)].vacate());
    }
}

/// Enters `me` into the table and returns the number of its slot. Under the lock, the heap being in order.
pub(crate) fn enter(sections: &Sections, engine: &Placer, me: Identity) -> Result<u8, Error> {
    let slots = sections.slots();
    let number = match slots.iter().position(|slot| slot.state.load(Relaxed) & STATE == FREE) {
        Some(free) => free,
        None => vacate(sections, engine)?,
    };
    slots[number].take(me);
    Ok(number as u8)
}

/// Frees slots of a full table whose processes have left: all that no block names, or, if there are none, the half that
/// the fewest blocks name. Of those blocks it is known from then on that their owner left, but not which one it was.
///
/// Time: constant, or proportional to the heap in the second case, which makes room for several handles.
#[cold]
fn vacate(sections: &Sections, engine: &Placer) -> Result<usize, Error> {
    let (slots, deaths) = (sections.slots(), sections.deaths());
    let has_left = |number: usize| slots[number].state(deaths).filter(|&state| state != ProcessState::Attached);
    let gone: Vec<(usize, ProcessState)> =
        (0..slots.len()).filter_map(|number| has_left(number).map(|state| (number, state))).collect();
    if sections.layout.shape.is_some() {
        // Slabs that others adopted are still counted.
        let names = count_names(sections, engine);
        gone.iter().for_each(|&(number, _)| slots[number].set_blocks(names[number]));
    }
    let mut left: Vec<(u64, usize, ProcessState)> =
        gone.into_iter().map(|(number, state)| (slots[number].blocks(), number, state)).collect();
    left.sort_unstable_by_key(|&(blocks, number, _)| (blocks, number));
    let unnamed = left.partition_point(|&(blocks, ..)| blocks == 0);
    left.truncate(if unnamed > 0 { unnamed } else { left.len().div_ceil(2) });
    if unnamed == 0 {
        let forgotten = |state| if state == ProcessState::Closed { FORGOTTEN_CLOSED } else { FORGOTTEN_DEAD };
        let names: Vec<(u8, u8)> = left.iter().map(|&(_, number, state)| (number as u8, forgotten(state))).collect();
        relabel(sections, engine, &names);
    }
    left.iter().for_each(|&(_, number, _)| slots[number].vacate());
    left.first().map(|&(_, number, _)| number).ok_or(Error::TooManyProcesses { most: slots.len() })
}
