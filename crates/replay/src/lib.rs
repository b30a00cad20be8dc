//! Simulated replay of traces: the heap that a recorded program would have had under another policy or other rules.
//!
//! A simulation places blocks without allocating them, so that its region may be far longer than this machine's memory,
//! and the result is exact. [`replay()`] runs a whole trace; a [`Simulation`] applies single events and returns the
//! effect of each.
//!
//! ```
//! use heapwright_placement::PolicyKind;
//! use heapwright_replay::{Effect, Model, Simulation};
//! use heapwright_trace::{Event, Kind};
//!
//! let mut simulation = Simulation::new(&Model::usual(PolicyKind::First))?;
//! let request = |block, size| Event::Allocate { block, kind: Kind::Malloc, size, align: 16 };
//! let Effect::Placed(first) = simulation.apply(&request(0, 100)) else { panic!("an empty heap grows") };
//! simulation.apply(&request(1, 50));
//! simulation.apply(&Event::Free { block: 0 });
//! let Effect::Placed(again) = simulation.apply(&request(2, 80)) else { panic!("there is a hole") };
//! assert_eq!(again.offset, first.offset);
//! assert_eq!(simulation.outcome().peak_requested, 150);
//! # Ok::<(), heapwright_replay::ReplayError>(())
//! ```
//!
//! Modules from the bottom up: `blocks` (the live blocks by number), `slots` (low numbers for live blocks), `model`
//! (the simulated heap), `engine` (fast or reference), `heap` (the engine and its metadata), `steps` (applies events),
//! `simulation` (event by event), `whole` (a trace at once); `recording` (events for many replays), `until` (replay up
//! to the first failure), `demand` (policy-independent requirements of a trace), `bounds` (worst cases in theory),
//! `fit` (the shortest region), `minimize` (the smallest trace with a property), `profile` (a replay with samples),
//! `history` (a replay with time series and maps).

mod blocks;
mod bounds;
mod demand;
mod engine;
mod error;
mod fit;
mod heap;
pub mod history;
mod minimize;
mod model;
mod outcome;
mod profile;
mod recording;
mod simulation;
mod slots;
mod steps;
mod until;
mod whole;

pub use blocks::Placed;
pub use bounds::{Bound, Heaps, Says};
pub use demand::Demand;
pub use engine::SimulatedEngine;
pub use error::ReplayError;
pub use fit::{Certainty, Effort, Fit, Trial};
pub use minimize::{Lives, Minimized};
pub use model::Model;
pub use outcome::Outcome;
pub use profile::{Moment, Profile, profile};
pub use recording::Recording;
pub use simulation::Simulation;
pub use steps::Effect;
pub use whole::replay;
