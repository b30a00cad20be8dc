//! Heaps with the placement policy of your choice.
//!
//! - [`FixedHeap`]: bytes of your own, from 256 up; [`Regions`] for several ranges of them; [`LockedHeap`] and
//!   [`StaticHeap`] as a program's allocator.
#![cfg_attr(
    feature = "os",
    doc = "- [`GrowingHeap`]: address space reserved once, memory committed as the heap grows and given back when it
  shrinks; [`GlobalHeap`] as a program's allocator.
- [`MappedHeap`]: every allocation a mapping of its own."
)]
//!
//! Without the feature `os`, which is on by default, only the first line of these is there, and neither the standard library
//! nor an operating system is needed.
#![no_std]

mod fixed;
#[cfg(feature = "os")]
mod growing;
#[cfg(feature = "os")]
mod mapped;
mod policy;
#[cfg(target_has_atomic = "8")]
mod spin;

pub use fixed::{COMPACT, FixedHeap, ReallocateError, Regions};
#[cfg(target_has_atomic = "8")]
pub use fixed::{ClaimError, LockedHeap, StaticHeap};

#[cfg(feature = "os")]
pub use growing::{Backing, CreateError, GlobalHeap, GrowingHeap, OutOfMemory, PageReturns, Settings};
#[cfg(feature = "os")]
pub use mapped::{Mapped, MappedHeap};
pub use policy::{Buddies, Chosen, Policy};

pub use heapwright_placement::{
    AllocateError, BestFit, Block, BlockState, Blocks, Counters, Engine, FirstFit, FreeError, Glance, GoodFit, Growth,
    HoleStats, NextFit, PolicyKind, RandomFit, ResizeError, Rules, RulesError, Statistics, Violation, WorstFit,
};

/// Keeps the examples of the page true.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/heaps.md")]
struct ChoosingAHeap;
