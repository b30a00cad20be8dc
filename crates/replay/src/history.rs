//! The history of a heap during a replay: sizes over time, a map of its addresses, its holes and the blocks that keep
//! them apart.
//!
//! Three passes over a trace: a [`Census`] of its policy-independent facts; the [`Outline`]s of all policies' heaps;
//! then their maps, which complete each [`History`]. Memory does not grow with the length of the trace: a [`Series`]
//! doubles the width of its buckets, a [`HeapMap`] has a fixed number of cells, and the rest is at most 64
//! bytes per live block and call site. A temporary file per policy has the places of all blocks, 4 bytes each.
//!
//! The history of one heap alone needs no such file: [`History::of`] replays the trace again.
//!
//! ```
//! use heapwright_placement::PolicyKind;
//! use heapwright_replay::history::{Census, Detail, History};
//! use heapwright_replay::{Model, replay};
//! use heapwright_trace::{About, Kind, Reader, Writer};
//!
//! let mut file = Vec::new();
//! let mut writer = Writer::new(&mut file, &About::default())?;
//! let blocks: Vec<u64> = (0..9).map(|_| writer.allocate(Kind::Malloc, 100, 16)).collect::<Result<_, _>>()?;
//! for &block in blocks.iter().step_by(2) {
//!     writer.free(block)?;
//! }
//! writer.finish()?;
//!
//! let census = Census::take(&mut Reader::new(&file[..])?)?;
//! let model = Model::usual(PolicyKind::First);
//! let outcome = replay(&mut Reader::new(&file[..])?, &model)?;
//! let history = History::of(&mut Reader::new(&file[..])?, &model, &outcome, &census, &Detail::default())?;
//! assert_eq!(history.heap.max(), Some(9 * 112));
//! assert_eq!(history.end.holes.count, 5);
//! // Four blocks keep five holes from being one.
//! assert_eq!(history.end.pins.len(), 4);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod census;
mod drawing;
mod extents;
mod grid;
mod histogram;
mod journal;
mod map;
mod moment;
mod outline;
mod pins;
mod relay;
mod series;
mod sites;
mod whole;

pub use census::{Census, Life, lives};
pub use grid::{Classes, Grid};
pub use histogram::Histogram;
pub use map::HeapMap;
pub use moment::Moment;
pub use outline::Outline;
pub use pins::{Pin, kept_apart};
pub use series::{Bucket, Series};
pub use sites::{SiteClasses, SiteUse};
pub use whole::{Detail, History};
