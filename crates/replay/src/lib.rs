//! Traces replayed in the engine's own address space: what would have become of a recorded heap under another policy or
//! other rules.
//!
//! Nothing is allocated: blocks are placed in a region that may be far longer than this machine's memory, and the
//! result is exact. [`replay()`] runs a whole trace; a [`Simulation`] is taken event by event and tells what each did.
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
//! From the bottom up: `blocks` (the live blocks by number), `model` (what is simulated), `heap` (the engine and its
//! metadata), `steps` (one event after another), `simulation` (with a look at each), `whole` (a trace at once);
//! `recording` (events to be replayed often), `until` (as much as a heap grants), `demand` (what a trace asks for), `bounds` (what theory
//! says of that), `fit` (the shortest region), `minimize` (the smallest trace of which something still holds); `profile` (a replay
//! with a look now and then).

mod blocks;
mod bounds;
mod demand;
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
mod steps;
mod until;
mod whole;

pub use blocks::Placed;
pub use bounds::{Bound, Heaps, Says};
pub use demand::Demand;
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
