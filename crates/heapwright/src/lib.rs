//! Heaps with the placement policy of your choice.
#![no_std]

mod policy;

pub use policy::{Buddies, Chosen, Policy};

pub use heapwright_placement::{
    AllocateError, BestFit, Block, BlockState, Blocks, Counters, Engine, FirstFit, FreeError, GoodFit, Growth,
    HoleStats, NextFit, PolicyKind, RandomFit, ResizeError, Rules, RulesError, Statistics, Violation, WorstFit,
};
