//! Exact placement policies over an abstract range of granules.
#![no_std]

mod any;
mod bit_tree;
mod bits;
mod buddy;
mod cells;
mod classes;
mod counters;
mod engine;
mod error;
mod fit;
mod generator;
mod index;
mod lookup;
mod map;
mod policies;
mod rules;
mod state;
mod store;

pub use any::AnyEngine;
pub use buddy::Buddy;
pub use counters::{Counters, HoleStats};
pub use engine::{Block, BlockState, Blocks, Engine, Freed};
pub use error::{AllocateError, FreeError, ResizeError, RulesError, Violation};
pub use fit::Fit;
pub use generator::Generator;
pub use policies::{BestFit, FirstFit, GoodFit, NextFit, RandomFit, WorstFit};
pub use rules::{Growth, MAX_GRANULES, MAX_HEADER, MIN_GRANULES, PolicyKind, Rules, Statistics};
