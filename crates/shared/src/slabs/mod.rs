//! Slabs: small blocks without the segment's lock.
//!
//! A slab is a block of the engine that one process, its owner, cuts into blocks of one size class. Only the owner
//! takes blocks of it; every process frees them. Slabs begin, end and change hands under the segment's lock; all else
//! is done without it. What a bitmap says is the truth: see `docs/shared-heap.md`.
//!
//! From the bottom up, over their metadata (`format::slab`): `parts` (the blocks in slabs, for walks), `marks`
//! (which blocks of the engine are slabs), `ledger`, `owned_class` and `owned` (what a process keeps of its slabs),
//! `lane` (for one thread at a time).

pub(crate) mod lane;
mod ledger;
pub(crate) mod marks;
pub(crate) mod owned;
pub(crate) mod owned_class;
pub(crate) mod parts;
