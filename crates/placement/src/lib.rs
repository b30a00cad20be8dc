//! Exact placement policies over an abstract range of granules.
//!
//! An engine decides where in a region blocks go. It computes offsets, never touches the region, calls no operating
//! system and allocates nothing: all its state lies in one block of metadata that the caller provides.
//!
//! - [`Fit`] with [`FirstFit`], [`NextFit`], [`BestFit`], [`WorstFit`], [`RandomFit`] or [`GoodFit`], and [`Buddy`]:
//!   the policies as types; [`AnyEngine`] when it is chosen at run time.
//! - [`Engine`]: the operations of all of them. [`Rules`]: what is decided before a heap exists.
//! - [`Counters`] and [`HoleStats`]: what happened, and what is left. [`Glance`]: the same from a copy of part of the
//!   metadata.
//!
//! ```
//! use heapwright_placement::{AnyEngine, Engine, PolicyKind, Rules};
//!
//! // The same requests under every policy: where does the last one go?
//! for policy in PolicyKind::ALL {
//!     let rules = Rules::default();
//!     let mut metadata = vec![0; AnyEngine::metadata_cells(policy, 4096, &rules)?];
//!     let mut heap = AnyEngine::create(policy, &mut metadata, 4096, &rules)?;
//!     let blocks: Vec<usize> = [256, 16, 64, 16].map(|bytes| heap.allocate(bytes, 16).unwrap()).into();
//!     heap.deallocate(blocks[0])?;
//!     heap.deallocate(blocks[2])?;
//!     let place = heap.allocate(48, 16)?;
//!     match policy {
//!         PolicyKind::First => assert_eq!(place, blocks[0]),
//!         PolicyKind::Best => assert_eq!(place, blocks[2]),
//!         _ => {}
//!     }
//!     heap.check()?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! From the bottom up: `bits` (arithmetic on words), `cells` (the metadata block), `bit_tree` (sets of integers), `map`
//! (where blocks start), `index` (the holes, ordered for a policy), `heap` (what all engines have in common),
//! `policies` (the choice), `fit` and `buddy` (the engines), `any`. The repository's ARCHITECTURE.md describes how they
//! work.
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
mod glance;
mod heap;
mod index;
mod lookup;
mod map;
mod noted;
mod parts;
mod policies;
mod recover;
mod rules;
mod state;
mod store;

pub use any::AnyEngine;
pub use buddy::{Buddy, buddy_end};
pub use counters::{Counters, HoleStats, Reuse};
pub use engine::{Block, BlockState, Blocks, Engine, Freed};
pub use error::{AllocateError, FreeError, ResizeError, RulesError, Violation};
pub use fit::Fit;
pub use generator::Generator;
pub use glance::Glance;
pub use noted::{Change, Noted};
pub use parts::{Part, Reach};
pub use policies::{BestFit, FirstFit, GoodFit, NextFit, RandomFit, WorstFit};
pub use recover::RecoverError;
pub use rules::{Growth, MAX_GRANULES, MAX_HEADER, MIN_GRANULES, PolicyKind, Rules, Statistics};
pub use state::fit_end;
