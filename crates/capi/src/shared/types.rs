//! The types of shared heaps, in the layout that `heapwright.h` declares.

use core::ffi::{c_char, c_void};
use core::time::Duration;

use heapwright_shared::{
    Access, BlockInfo, BlockOwner, BlockState, Owner, ProcessInfo, ProcessState, Reclaimed, Root, Settings, SharedHeap,
    SmallBlocks,
};

use super::failure::Failure;
use crate::create::policy_of;
use crate::types::cut;

/// `hw_shared_settings`; all zeros is the default.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct SharedSettings {
    /// Bytes of blocks at first; 0 stands for 1 MiB.
    pub size: usize,
    /// Bytes of blocks at most; 0 for a heap that never grows.
    pub max_size: usize,
    /// Of random fit.
    pub seed: u64,
    /// 0 stands for best fit.
    pub policy: u32,
    /// Permission bits; 0 stands for 0600.
    pub mode: u32,
    /// Bytes; 0 stands for 64.
    pub granule: u32,
    /// Number of processes that may be attached at a time; 0 stands for 64.
    pub processes: u32,
    /// Number of named roots that there is room for; 0 stands for 32.
    pub roots: u32,
    /// The longest time that an operation waits for the lock, in milliseconds; 0 stands for 10 seconds.
    pub patience: u32,
    /// `hw_small_blocks`; 0 stands for those that the policy places.
    pub small_blocks: u32,
}

/// `given`, or the default where that is zero.
fn or_usual<T: Default + PartialEq>(given: T, usual: T) -> T {
    if given == T::default() { usual } else { given }
}

fn patience_of(milliseconds: u32, usual: Duration) -> Duration {
    or_usual(Duration::from_millis(milliseconds.into()), usual)
}

impl SharedSettings {
    /// The settings, or which of them is out of range.
    pub(crate) fn decoded(self) -> Result<Settings, Failure> {
        let given = self;
        let usual = Settings::default();
        Ok(Settings {
            size: or_usual(given.size, usual.size),
            max_size: (given.max_size != 0).then_some(given.max_size),
            policy: policy_of(or_usual(given.policy, usual.policy as u32))?,
            mode: or_usual(given.mode, usual.mode),
            granule: or_usual(given.granule, usual.granule),
            processes: or_usual(given.processes as usize, usual.processes),
            roots: or_usual(given.roots as usize, usual.roots),
            seed: given.seed,
            patience: patience_of(given.patience, usual.patience),
            small: small_blocks_of(given.small_blocks)?,
        })
    }
}

fn small_blocks_of(number: u32) -> Result<SmallBlocks, Failure> {
    let known = SmallBlocks::ALL.into_iter().find(|&small| small as u32 == number);
    known.ok_or(Failure::option("small_blocks is HW_SMALL_PLACED or HW_SMALL_SLABS"))
}

/// `hw_shared_access`; all zeros is the default.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct SharedAccess {
    /// The longest time that an operation waits for the lock, in milliseconds; 0 stands for 10 seconds.
    pub patience: u32,
    /// The owners whose segments are opened. 0: the effective user and the superuser; 1: also `user`; 2: every user.
    pub owner: u32,
    /// The number of a user.
    pub user: u32,
}

impl SharedAccess {
    /// The access, or what of it is out of range.
    pub(crate) fn decoded(self) -> Result<Access, Failure> {
        let given = self;
        let owner = match given.owner {
            0 => Owner::Mine,
            1 => Owner::User(given.user),
            2 => Owner::Anybody,
            _ => return Err(Failure::option("owner is HW_OWNER_MINE, HW_OWNER_USER or HW_OWNER_ANYBODY")),
        };
        Ok(Access { patience: patience_of(given.patience, Access::default().patience), owner })
    }
}

/// The number of a process's state; no state has the number 0.
fn number_of(state: ProcessState) -> u32 {
    match state {
        ProcessState::Attached => 1,
        ProcessState::Closed => 2,
        ProcessState::Dead => 3,
    }
}

/// The process number and state of an owner, as C sees them.
fn parts_of(owner: BlockOwner) -> (u32, u32) {
    (owner.pid.unwrap_or(0), number_of(owner.state))
}

/// `hw_shared_block`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SharedBlock {
    /// Where it starts, in every process.
    pub offset: u64,
    /// Where it starts, in this one.
    pub address: *mut c_void,
    /// Bytes.
    pub size: usize,
    /// 1: used; 0: a hole.
    pub used: u32,
    /// The number of the process that allocated it; 0 for a hole, and when the process table no longer lists the
    /// process.
    pub pid: u32,
    /// The state of that process; 0 for a hole.
    pub state: u32,
}

impl SharedBlock {
    pub(crate) fn of(heap: &SharedHeap, block: &BlockInfo) -> SharedBlock {
        let (pid, state) = block.owner.map_or((0, 0), parts_of);
        SharedBlock {
            offset: block.offset.get(),
            address: heap.pointer(block.offset).as_ptr().cast(),
            size: block.size,
            used: u32::from(block.state == BlockState::Used),
            pid,
            state,
        }
    }
}

/// `hw_shared_process`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SharedProcess {
    /// Its number; 0 for the processes whose entries in the process table were reused.
    pub pid: u32,
    /// Its state.
    pub state: u32,
    /// Number of its blocks.
    pub blocks: u64,
    /// Bytes in them.
    pub bytes: u64,
}

impl From<ProcessInfo> for SharedProcess {
    fn from(process: ProcessInfo) -> Self {
        let (pid, state) = parts_of(process.owner);
        SharedProcess { pid, state, blocks: process.blocks, bytes: process.bytes }
    }
}

/// `hw_shared_root`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SharedRoot {
    /// Where it points.
    pub offset: u64,
    /// Its name, and a zero.
    pub name: [c_char; 48],
}

impl From<Root> for SharedRoot {
    fn from(root: Root) -> Self {
        SharedRoot { offset: root.offset.get(), name: cut(&root.name) }
    }
}

/// `hw_shared_reclaimed`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SharedReclaimed {
    /// Number of blocks that were freed.
    pub blocks: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Number of blocks that were kept because a root points at them.
    pub kept: u64,
}

impl From<Reclaimed> for SharedReclaimed {
    fn from(reclaimed: Reclaimed) -> Self {
        SharedReclaimed { blocks: reclaimed.blocks, bytes: reclaimed.bytes, kept: reclaimed.kept }
    }
}
