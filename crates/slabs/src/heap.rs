//! The heap of a thread: a thread cache in front of slabs.
//!
//! The fast path touches one line of the heap, and the block: [`ThreadHeap::take`] pops a free list,
//! [`ThreadHeap::give`] pushes onto one. The slow path fills an empty list from a slab, and flushes the latest blocks
//! of a list that is too long.
//!
//! The thread cache is used by the heap's thread alone, and never locked. The slabs are behind a lock (`owner_lock`),
//! which the thread takes to refill or flush lists. Other threads take it to reclaim remote frees (`reclaim`) and idle
//! memory.
//!
//! From the bottom up: `tenancy`, `front` (what other threads use of a heap), `remote_buffer`; `age`,
//! `dissolved_slabs`, `purging` (the state of slabs); `slabs`, `dissolving`, `batch`, `idle_pages` (what is done with
//! them); `allowance`, `cache`; `parts` (what a heap consists of), `reclaim`, `thread_heap`, `registry`; `decay`,
//! `inspect`, `glance`.

mod age;
mod allowance;
mod batch;
mod cache;
mod decay;
mod dissolved_slabs;
mod dissolving;
mod front;
#[cfg(not(loom))]
mod glance;
mod idle_pages;
mod inspect;
mod parts;
mod purging;
mod reclaim;
mod registry;
mod remote_buffer;
mod slabs;
mod tenancy;
mod thread_heap;

pub use dissolving::turn_dissolving_off;
#[cfg(not(loom))]
pub use glance::HeapGlance;
pub(crate) use parts::EMPTY;
pub use parts::Heap;
pub use reclaim::{reclaim, send_unbuffered};
pub use tenancy::Pages;
pub use thread_heap::{Owned, ThreadHeap};
