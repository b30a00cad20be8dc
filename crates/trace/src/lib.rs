//! Heap traces: the allocations, resizes and frees of a program, in order.
//!
//! A trace contains no addresses: blocks are numbered in allocation order, so that a trace can be replayed under any
//! allocator. A file is a stream of independent frames: everything written before a crash stays readable, and memory
//! use does not grow with the length of the trace. `docs/trace-format.md` describes the format.
//!
//! ```
//! use heapwright_trace::{About, Event, Kind, Reader, Writer};
//!
//! let mut file = Vec::new();
//! let mut writer = Writer::new(&mut file, &About::of_program("example"))?;
//! let block = writer.allocate(Kind::Malloc, 100, 16)?;
//! let longer = writer.resize(block, 200)?;
//! writer.free(longer)?;
//! writer.finish()?;
//!
//! let mut reader = Reader::new(&file[..])?;
//! assert_eq!(reader.about().get("program"), Some("example"));
//! assert_eq!(reader.next_event()?, Some(Event::Allocate { block: 0, kind: Kind::Malloc, size: 100, align: 16 }));
//! assert_eq!(reader.next_event()?, Some(Event::Resize { block: 0, becomes: 1, size: 200 }));
//! assert_eq!(reader.next_event()?, Some(Event::Free { block: 1 }));
//! assert_eq!(reader.next_event()?, None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Modules from the bottom up: `number` (variable-length integers), `event`, `encoded` (a column), `sites` (call
//! sites), `batch` (events that are added together), `columns` (encoding of events), `pace` (levels of compression),
//! `frame` (one compressed frame), `frames` (the frames of a file), `texts` and `about` (named texts), `side` (side
//! streams: times and sites of events), `touched` (pages of long blocks), `samples` and `totals` (the recorded
//! process), `writer` and `reader`, `live` (tables of live blocks), `import` and `export` (formats of other tools).

mod about;
mod batch;
mod columns;
mod encoded;
mod error;
mod event;
pub mod export;
mod frame;
mod frames;
pub mod import;
mod live;
mod number;
mod opcodes;
mod pace;
mod reader;
mod samples;
mod side;
mod sites;
mod texts;
mod totals;
mod touched;
mod writer;

pub use about::{About, INCOMPLETE};
pub use batch::{Batch, BatchRoom};
pub use error::{ReadError, WriteError};
pub use event::{DEFAULT_ALIGN, Event, Kind};
pub use live::LiveBlocks;
pub use reader::{Counts, Reader};
pub use samples::Sample;
pub use sites::SiteId;
pub use totals::Totals;
pub use writer::Writer;

/// The format version that this crate writes, and the newest that it reads.
pub const VERSION: u32 = 1;
