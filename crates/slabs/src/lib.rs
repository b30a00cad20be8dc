//! What the cached heap is made of: the pages of the process, the slabs that are cut from them, and a heap with a
//! thread cache for each thread. A part of `heapwright-cached`, which has the functions that programs call.
//!
//! Slabs and long blocks are placed by a first-fit engine over pages, behind the arena's lock. The tables that describe
//! them grow with the pages, and are found by the address of a block. A slab is 64 KiB of blocks of one class, and
//! belongs to one heap; of the heap, the thread cache is used by one thread, and the slabs are behind a lock.
//!
//! Each file uses only files of the layers below its own (`.ci/house` checks that there is no circle). From the bottom
//! up:
//!
//! - `platform` (for loom `model`), `classes`, `errors`, `corruption`, `measures`: what all others use;
//! - `mode`: whether calls are counted, and the measures of hardening;
//! - `scarcity`, `purging`: whether memory is scarce, and when free pages are purged;
//! - `links`, `entry`, `free_list`, `slab_list`, `slab`, `inbox`, `owner_lock`, `long_cache`: the parts of heaps;
//! - `tables`, `arena`, `origin`: the pages and their tables, and where a block belongs;
//! - `heap`, `thread`: the heaps, and that of the calling thread.
#![cfg_attr(not(loom), no_std)]
// The page of this crate is for those who work on it.
#![allow(rustdoc::private_intra_doc_links)]

#[cfg(test)]
extern crate std;

pub mod arena;
mod carrier;
pub mod classes;
mod corruption;
pub mod entry;
pub mod errors;
mod free_list;
pub mod heap;
pub mod inbox;
#[cfg(all(loom, test))]
mod interleavings;
pub mod links;
pub mod long_cache;
pub mod measures;
pub mod mode;
pub mod origin;
pub mod owner_lock;
#[cfg(loom)]
#[path = "model.rs"]
#[allow(missing_docs)] // `platform.rs` says what these are.
pub mod platform;
#[cfg(not(loom))]
pub mod platform;
pub mod purging;
pub mod scarcity;
pub mod slab;
pub mod slab_list;
pub mod tables;
pub mod thread;
