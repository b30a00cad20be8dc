//! The trace of a program's heap: what was allocated, resized and freed, and in which order.
//!
//! A trace says nothing of addresses: blocks are numbered in the order in which they were allocated, so that a trace can
//! be replayed under any allocator. Files are streams of independent frames: what was written before a crash can be read,
//! and memory does not grow with a trace's length. The format is described in `docs/trace-format.md`.
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
//! From the bottom up: `number` (integers of variable length), `event` (what happens), `columns` (events as bytes), `frame`
//! (their packing) and `frames` (their row), `texts` and `about` (what else a trace tells), `sites` (where requests come from) and
//! `side` (times and sites of events), `writer` and `reader`, `import` (what other tools wrote) and `export` (what they read).

mod about;
mod columns;
mod error;
mod event;
pub mod export;
mod frame;
mod frames;
pub mod import;
mod number;
mod reader;
mod side;
mod sites;
mod texts;
mod writer;

pub use about::About;
pub use error::{ReadError, WriteError};
pub use event::{Event, Kind};
pub use reader::Reader;
pub use sites::SiteId;
pub use writer::Writer;

/// The version of the format that this crate writes, and the newest that it reads.
pub const VERSION: u32 = 1;
