//! Heaps with the placement policy of your choice.
#![no_std]

#[cfg(feature = "os")]
mod growing;
#[cfg(feature = "os")]
mod mapped;
mod policy;

#[cfg(feature = "os")]
pub use growing::{CreateError, GlobalHeap, GrowingHeap, OutOfMemory, PageReturns, Settings};
#[cfg(feature = "os")]
pub use mapped::{Mapped, MappedHeap};
pub use policy::{Buddies, Chosen, Policy};

pub use heapwright_placement::{
    AllocateError, BestFit, Block, BlockState, Blocks, Counters, Engine, FirstFit, FreeError, GoodFit, Growth,
    HoleStats, NextFit, PolicyKind, RandomFit, ResizeError, Rules, RulesError, Statistics, Violation, WorstFit,
};
