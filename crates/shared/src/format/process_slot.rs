//! The process table as it lies in a segment, and the numbers by which blocks name their owners.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst, compiler_fence};

use heapwright_os::{Deaths, Identity, Life};

/// Stands for all processes that closed the segment and had to make room in the process table.
pub(crate) const FORGOTTEN_CLOSED: u8 = 254;
/// Stands for all processes that died and had to make room in the process table, and for owners that cannot be.
pub(crate) const FORGOTTEN_DEAD: u8 = 255;

/// The states, in the low bits of [`ProcessSlot::state`].
const FREE: u64 = 0;
const ATTACHED: u64 = 1;
const CLOSED: u64 = 2;
const STATE: u64 = 3;

/// One block in [`ProcessSlot::state`].
const BLOCK: u64 = STATE + 1;

/// A handle's entry as it lies in the segment; a process has one for every time that it has opened the segment.
///
/// An entry stays listed while the process is attached, and after that while a block names the entry.
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

/// The process that allocated a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// Its process number; `None` for one that had to make room in the process table and is remembered by its state
    /// only.
    pub pid: Option<u32>,
    /// What became of it.
    pub state: ProcessState,
}

impl ProcessSlot {
    pub(crate) fn identity(&self) -> Identity {
        Identity::from_word(self.identity.load(Relaxed))
    }

    /// Returns the state of the process that this slot is for; `None` for a free slot. Asks the system.
    pub(crate) fn state(&self, deaths: Deaths) -> Option<ProcessState> {
        match self.state.load(Relaxed) & STATE {
            FREE => None,
            CLOSED => Some(ProcessState::Closed),
            _ if deaths.life_of(self.identity()) == Life::Alive => Some(ProcessState::Attached),
            _ => Some(ProcessState::Dead),
        }
    }

    pub(crate) fn is_free(&self) -> bool {
        self.state.load(Relaxed) & STATE == FREE
    }

    /// Returns whether its process has not closed the segment, dead or alive.
    pub(crate) fn is_attached(&self) -> bool {
        self.state.load(Relaxed) & STATE == ATTACHED
    }

    /// Returns whether the slot is free or its process has closed the segment. Without a call: another may be dead.
    pub(crate) fn has_left(&self) -> bool {
        matches!(self.state.load(Relaxed) & STATE, FREE | CLOSED)
    }

    /// Returns the state and the identity, without the count.
    pub(crate) fn words(&self) -> (u64, u64) {
        (self.state.load(Relaxed) & STATE, self.identity.load(Relaxed))
    }

    pub(crate) fn blocks(&self) -> u64 {
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

    pub(crate) fn set_blocks(&self, blocks: u64) {
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
    pub(crate) fn vacate(&self) {
        self.set_state(FREE);
    }

    #[inline(always)]
    fn set_state(&self, state: u64) {
        compiler_fence(SeqCst);
        self.state.store(state, Relaxed);
        compiler_fence(SeqCst);
    }
}
