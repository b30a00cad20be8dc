//! The process table: who is attached, and whom the blocks' owner bytes name.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst, compiler_fence};

use heapwright_os::{Identity, Life, life};

use crate::engine::Placer;
use crate::error::Error;
use crate::owners::{FORGOTTEN_CLOSED, FORGOTTEN_DEAD, count_blocks, relabel};
use crate::sections::Sections;

const FREE: u64 = 0;
const ATTACHED: u64 = 1;
const CLOSED: u64 = 2;

/// A handle's entry as it lies in the segment; a process has one for every time that it has opened the segment.
///
/// Whoever attached and whoever has left stay listed while a block names them.
#[repr(C)]
pub(crate) struct ProcessSlot {
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
    /// Its process number; `None` for those who had to make room in the process table and are remembered by their state only.
    pub pid: Option<u32>,
    /// What became of it.
    pub state: ProcessState,
}

impl ProcessSlot {
    pub(crate) fn identity(&self) -> Identity {
        Identity::from_word(self.identity.load(Relaxed))
    }

    /// What became of whom this slot is for; `None` for a free slot. Asks the system.
    pub(crate) fn state(&self) -> Option<ProcessState> {
        match self.state.load(Relaxed) {
            FREE => None,
            CLOSED => Some(ProcessState::Closed),
            _ if life(self.identity()) == Life::Alive => Some(ProcessState::Attached),
            _ => Some(ProcessState::Dead),
        }
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.state() == Some(ProcessState::Attached)
    }

    pub(crate) fn owner(&self) -> Option<Owner> {
        self.state().map(|state| Owner { pid: Some(self.identity().pid), state })
    }

    /// Commits by the store of the state; until then the slot is free.
    pub(crate) fn take(&self, me: Identity) {
        self.state.store(FREE, Relaxed);
        compiler_fence(SeqCst);
        self.identity.store(me.word(), Relaxed);
        compiler_fence(SeqCst);
        self.state.store(ATTACHED, Relaxed);
        compiler_fence(SeqCst);
    }

    /// Commits by its only store.
    pub(crate) fn close(&self) {
        compiler_fence(SeqCst);
        self.state.store(CLOSED, Relaxed);
        compiler_fence(SeqCst);
    }
}

/// Whether somebody is attached who lives.
pub(crate) fn any_alive(sections: &Sections) -> bool {
    sections.slots().iter().any(ProcessSlot::is_alive)
}

/// Enters `me` into the table and returns the number of its slot. Under the lock, the heap being in order.
pub(crate) fn enter(sections: &Sections, engine: &Placer, me: Identity) -> Result<u8, Error> {
    let slots = sections.slots();
    let number = match slots.iter().position(|slot| slot.state.load(Relaxed) == FREE) {
        Some(free) => free,
        None => vacate(sections, engine)?,
    };
    slots[number].take(me);
    Ok(number as u8)
}

/// Makes room in a full table: the slot, of those who have left, that the fewest blocks name. Those blocks are from now on known to
/// be of somebody who left, but not of whom.
#[cold]
fn vacate(sections: &Sections, engine: &Placer) -> Result<usize, Error> {
    let slots = sections.slots();
    let blocks = count_blocks(sections, engine);
    let (number, state) = slots
        .iter()
        .enumerate()
        .filter_map(|(number, slot)| slot.state().map(|state| (number, state)))
        .filter(|&(_, state)| state != ProcessState::Attached)
        .min_by_key(|&(number, _)| blocks[number].blocks)
        .ok_or(Error::TooManyProcesses { most: slots.len() })?;
    if blocks[number].blocks > 0 {
        let forgotten = if state == ProcessState::Closed { FORGOTTEN_CLOSED } else { FORGOTTEN_DEAD };
        relabel(sections, engine, number as u8, forgotten);
    }
    Ok(number)
}
