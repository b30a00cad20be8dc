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
//! // SAFETY: the block is as long, and nobody else knows it yet.
//! unsafe { heap.pointer(block).write_bytes(1, 100) };
//! heap.set_root("greeting", block)?;
//! assert_eq!(heap.root("greeting")?, Some(block));
//! heap.close()?;
//! SharedHeap::unlink(&place)?;
//! # Ok::<(), heapwright_shared::Error>(())
//! ```
//!
//! From the bottom up: `place`, `settings`, `error`, `offset` (what is said and answered); `layout`, `header`,
//! `record`, `publication`, over `atomics` (what lies in a segment); `sections`, `mapping` (a segment as it is mapped),
//! `engine` (the placement engine over it), `owners`, `processes`, `seal`, `recover`, `view`; `slabs` (small blocks
//! without the lock); `heap` (a handle, and the critical section); `create`, `open`, `close`, `operate`, `publish`,
//! `grow`, `roots`, `mutex`, `reclaim`, `reachable`, `inspect` (what handles do); `copy`, `snapshot`, `observer`,
//! `repair` (what is done without one). How and why a killed process does no harm is told in `docs/shared-heap.md`.

mod atomics;
mod beyond;
mod close;
mod condition;
mod copy;
mod create;
mod engine;
mod error;
mod grow;
mod header;
mod heap;
mod inspect;
mod layout;
mod mapping;
mod mutex;
mod observer;
mod offset;
mod open;
mod operate;
mod owners;
mod place;
mod processes;
mod publication;
mod publish;
mod reachable;
mod reclaim;
mod record;
mod recover;
mod repair;
mod roots;
mod seal;
mod sections;
mod settings;
mod slabs;
mod snapshot;
mod view;

pub use condition::Condition;
pub use error::Error;
pub use heap::SharedHeap;
pub use heapwright_os::FileError;
pub use heapwright_placement::{BlockState, Counters, HoleStats, PolicyKind};
pub use inspect::{BlockInfo, ProcessInfo, Walk};
pub use mutex::{Mutex, MutexGuard, RawMutex};
pub use observer::{LockView, ObservedProcess, Observer, Picture};
pub use offset::{Offset, Relocatable};
pub use place::Place;
pub use processes::{Owner as BlockOwner, ProcessState};
pub use reachable::Traced;
pub use reclaim::{Leavers, Reclaimed};
pub use repair::{Repaired, Strangers};
pub use roots::{LONGEST_NAME, Root};
pub use settings::{Access, MAX_PROCESSES, MAX_ROOTS, Owner, PATIENCE, Settings, SmallBlocks};
pub use snapshot::Snapshot;
