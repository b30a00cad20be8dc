//! Slabs: small blocks without the segment's lock.
//!
//! A slab is a block of the engine that one process, its owner, cuts into blocks of one size class. Only the owner
//! takes blocks of it; every process frees them. Slabs begin, end and change hands under the segment's lock; all else
//! is done without it. What a bitmap says is the truth: see `docs/shared-heap.md`.
//!
//! From the bottom up: `classes`, `bitmap`, `slab` (what lies in the segment), `parts` (the blocks in slabs, for
//! those who look), `owned_class` and `owned` (what a process keeps of its slabs), `lane`, `tenures` (how they begin,
//! end and change hands), `operate`.

use crate::atomics;

pub(crate) mod bitmap;
mod classes;
#[cfg(all(loom, test))]
mod interleavings;
mod lane;
mod operate;
mod owned;
mod owned_class;
mod parts;
mod slab;
mod tenures;

pub(crate) use bitmap::NotLive;
pub(crate) use lane::Lane;
pub(crate) use owned::Owned;
pub(crate) use owned_class::{FreeBlock, Outcome};
pub(crate) use parts::{
    Small, check, count_blocks_of_slabs, each_part, give_back, is_in_slab, is_slab, redo, size_of_block, slab_owner,
    used_block,
};
pub(crate) use slab::{LARGEST_GRANULE, SLAB, Shape, Slab, SlabCounts};
pub(crate) use tenures::{reconcile, rename};
