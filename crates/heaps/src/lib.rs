//! Heaps that place blocks by a policy. Programs use the crate `heapwright`, which re-exports this one and adds the
//! cached heap that is built on it.
//!
//! - `fixed`: [`FixedHeap`] and its variants, in memory that the caller provides.
//! - `growing`, `mapped`: memory from the operating system, with the feature `os`.
//! - `recalling`: a growing heap that recalls its last placements.
//! - `refaults`: what is retained because purged pages were used again soon.
//! - `placement`: queries about the blocks of either.
//! - `policy`: policies as types, or [`Chosen`] by name.
#![no_std]

mod fixed;
#[cfg(feature = "os")]
mod growing;
#[cfg(feature = "os")]
mod mapped;
mod placement;
mod policy;
#[cfg(feature = "os")]
mod recalling;
#[cfg(feature = "os")]
mod refaults;
#[cfg(target_has_atomic = "8")]
mod spin;

pub use fixed::{COMPACT, FixedHeap, ReallocateError, Regions};
#[cfg(target_has_atomic = "8")]
pub use fixed::{ClaimError, LockedHeap, StaticHeap};

#[cfg(feature = "os")]
pub use growing::{
    Backing, CreateError, GlobalHeap, GrowingHeap, OutOfMemory, PageReturns, PurgedBeside, Room, Settings,
};
#[cfg(feature = "os")]
pub use mapped::{Mapped, MappedHeap, Mapping, MappingTotals, Mappings};
pub use placement::Placement;
pub use policy::{Buddies, Chosen, Policy};
#[cfg(feature = "os")]
pub use recalling::RecallingHeap;
#[cfg(feature = "os")]
#[doc(hidden)]
pub use refaults::Refaults;

pub use heapwright_placement::{
    AllocateError, BestFit, Block, BlockState, Blocks, Counters, Engine, FirstFit, FreeError, Glance, GoodFit, Growth,
    HoleStats, NextFit, PolicyKind, RandomFit, ResizeError, Rules, RulesError, Statistics, Violation, WorstFit,
};
pub use heapwright_rules::{Requests, Zero};
