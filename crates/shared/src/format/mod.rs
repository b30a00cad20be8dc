//! What lies in a segment, and where.
//!
//! From the bottom up: `record` and `publication` (what a change was about to make), `process_slot`, `root_slot`;
//! `classes`, `bitmap`, `slab` (the metadata of slabs); `header`, `layout` (where all of it lies), `fixed` (what of it
//! was decided when the segment was made). Everything is atomic integers, over `atomics`.

mod atomics;
pub(crate) mod bitmap;
pub(crate) mod classes;
pub(crate) mod fixed;
pub(crate) mod header;
#[cfg(all(loom, test))]
mod interleavings;
pub(crate) mod layout;
pub(crate) mod process_slot;
pub(crate) mod publication;
pub(crate) mod record;
pub(crate) mod root_slot;
pub(crate) mod slab;
