//! A heap in memory that processes share, which survives the death of any of them at any instruction.
//!
//! - [`SharedHeap`]: a heap in a POSIX shared-memory object or a file ([`Place`]), under any placement policy, made
//!   with [`Settings`] and opened with [`Access`].
//! - [`Offset`]: a pointer that means the same in every process, to what is [`Relocatable`].
//! - [`Snapshot`]: a segment looked at from outside, whatever its condition.
//! - [`Observer`]: a segment in use, read without its lock from a file opened for reading only.
//! - Named roots, by which processes find each other's data; the owner of every block, and what dead ones left behind.
//!
//! ```
//! use heapwright_shared::{Place, Settings, SharedHeap};
//! # let name = format!("heapwright-doc-lib-{}", std::process::id());
//! let place = Place::new(&name)?;
//! let heap = SharedHeap::open_or_create(&place, &Settings::default())?;
//! let block = heap.allocate(100)?;
//! // SAFETY: the block is as long, and no other process has its offset yet.
//! unsafe { heap.pointer(block).write_bytes(1, 100) };
//! heap.set_root("greeting", block)?;
//! assert_eq!(heap.root("greeting")?, Some(block));
//! heap.close()?;
//! SharedHeap::unlink(&place)?;
//! # Ok::<(), heapwright_shared::Error>(())
//! ```
//!
//! From the bottom up: `terms` (what callers say, and are answered), `format` (what lies in a segment), `mapped` (a
//! segment as a process has it), `slabs` (small blocks without the lock), `order` (how it is found or put in order),
//! `handle` (what a process does with it), `outside` (what is done without opening it). How and why a killed process
//! does no harm is told in `docs/shared-heap.md`.

mod format;
mod handle;
mod mapped;
mod order;
mod outside;
mod slabs;
mod terms;

pub use format::process_slot::{Owner as BlockOwner, ProcessState};
pub use format::root_slot::Root;
pub use handle::heap::SharedHeap;
pub use handle::inspect::{BlockInfo, ProcessInfo, Walk};
pub use handle::mutex::{Mutex, MutexGuard, RawMutex};
pub use handle::reachable::Traced;
pub use handle::reclaim::{Leavers, Reclaimed};
pub use heapwright_os::FileError;
pub use heapwright_placement::{BlockState, Counters, HoleStats, PolicyKind};
pub use order::condition::Condition;
pub use outside::observer::{LockView, ObservedProcess, Observer, Picture};
pub use outside::repair::{Repaired, Strangers};
pub use outside::snapshot::Snapshot;
pub use terms::error::Error;
pub use terms::limits::{LONGEST_NAME, MAX_PROCESSES, MAX_ROOTS};
pub use terms::offset::{Offset, Relocatable};
pub use terms::place::Place;
pub use terms::settings::{Access, Owner, PATIENCE, Settings, SmallBlocks};
