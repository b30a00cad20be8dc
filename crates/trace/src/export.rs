//! Exports traces to the formats of other tools.
//!
//! ```
//! use heapwright_trace::{About, Kind, Reader, Writer, export};
//! use heapwright_trace::import::Format;
//!
//! let mut writer = Writer::new(Vec::new(), &About::default())?;
//! let block = writer.allocate(Kind::Malloc, 100, 16)?;
//! writer.free(block)?;
//! let trace = writer.finish()?;
//!
//! let mut text = Vec::new();
//! let extent = export::Extent::of(&mut Reader::new(&trace[..])?)?;
//! let exported = export::export(Format::Rep, &extent, Reader::new(&trace[..])?, &mut text)?;
//! assert_eq!(text, b"100\n1\n2\n1\na 0 100\nf 0\n");
//! assert_eq!(exported.operations, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Write};

use crate::error::ReadError;
use crate::event::{Event, Kind};
use crate::import::Format;
use crate::reader::Reader;

mod lines;
mod timeline;

pub use self::timeline::{Clock, Timeline, export_timeline};

/// The formats that traces can be exported to.
pub const FORMATS: [Format; 4] = [Format::Csv, Format::Rep, Format::MemoryReplay, Format::Mtrace];

/// The extent of a trace, which some formats store in their header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// The number of blocks. A resized block counts once.
    pub blocks: u64,
    /// The number of allocations, resizes and frees of live blocks.
    pub operations: u64,
    /// The peak of the requested bytes of all live blocks.
    pub peak: u64,
}

impl Extent {
    /// Computes the extent of a trace, of a damaged one up to the damage. Memory: proportional to the blocks live at
    /// one time.
    ///
    /// # Errors
    /// [`ReadError::Io`].
    pub fn of(reader: &mut Reader<'_>) -> Result<Extent, ReadError> {
        let (mut extent, mut sizes, mut live) = (Extent::default(), HashMap::new(), 0u64);
        while let Some(event) = until_damage(reader.next_event())? {
            let (old, new) = match event {
                Event::Allocate { block, size, .. } => (None, Some((block, size))),
                Event::Resize { block, becomes, size } => (Some(block), Some((becomes, size))),
                Event::Free { block } => (Some(block), None),
                Event::Failed { .. } | Event::Thread { .. } => continue,
            };
            let freed = old.map(|block| sizes.remove(&block));
            if freed == Some(None) {
                continue;
            }
            extent.operations += 1;
            extent.blocks += u64::from(old.is_none());
            // The sizes in a malicious trace may overflow.
            live = live.saturating_sub(freed.flatten().unwrap_or(0));
            if let Some((block, size)) = new {
                live = live.saturating_add(size);
                sizes.insert(block, size);
            }
            extent.peak = extent.peak.max(live);
        }
        Ok(extent)
    }
}

/// Treats damage as the end of the trace.
fn until_damage(read: Result<Option<Event>, ReadError>) -> Result<Option<Event>, ReadError> {
    match read {
        Err(ReadError::Damaged { .. }) => Ok(None),
        read => read,
    }
}

/// Counts of what was exported, and of what the format cannot express.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Exported allocations, resizes and frees.
    pub operations: u64,
    /// Thread changes that were lost.
    pub threads: u64,
    /// Requests whose alignment was lost.
    pub alignments: u64,
    /// Zeroed allocations exported as plain ones.
    pub zeroed: u64,
    /// Failed requests that were lost.
    pub failures: u64,
    /// Events whose time or call site was lost.
    pub beside: u64,
    /// Frees and resizes of blocks that are not live, which are left out.
    pub unknown: u64,
}

/// The reason why an export ended early.
#[derive(Debug)]
pub enum ExportError {
    /// The trace cannot be read, or not to its end.
    Read(ReadError),
    /// Writing to the destination failed.
    Write(io::Error),
    /// Export to this format is not supported.
    NoWriter(Format),
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExportError::Read(error) => error.fmt(f),
            ExportError::Write(error) => write!(f, "the exported trace cannot be written: {error}"),
            ExportError::NoWriter(format) => write!(f, "export to the format {} is not supported", format.name()),
        }
    }
}

impl std::error::Error for ExportError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // The messages contain those of the errors, so that no chain of messages repeats one.
            ExportError::Read(error) => error.source(),
            ExportError::Write(error) => error.source(),
            ExportError::NoWriter(_) => None,
        }
    }
}

impl From<ReadError> for ExportError {
    fn from(error: ReadError) -> Self {
        ExportError::Read(error)
    }
}

impl From<io::Error> for ExportError {
    fn from(error: io::Error) -> Self {
        ExportError::Write(error)
    }
}

/// An event in the terms of another format.
enum Operation {
    Allocate { kind: Kind, id: u64, size: u64, align: u64 },
    Resize { id: u64, size: u64 },
    Free { id: u64 },
    Failed { size: u64, align: u64 },
}

/// Writes a trace in another format; `extent` is the extent of the same trace. Memory: proportional to the blocks live
/// at one time.
///
/// # Errors
/// [`ExportError`]. Of a damaged trace, the part before the damage has been written.
pub fn export(
    format: Format,
    extent: &Extent,
    reader: Reader<'_>,
    mut out: impl Write,
) -> Result<Exported, ExportError> {
    if !FORMATS.contains(&format) {
        return Err(ExportError::NoWriter(format));
    }
    lines::begin(format, extent, &mut out)?;
    let exported = write_events(format, reader.with_times().with_sites(), &mut out);
    lines::end(format, &mut out)?;
    out.flush()?;
    exported
}

fn write_events(format: Format, mut reader: Reader<'_>, out: &mut impl Write) -> Result<Exported, ExportError> {
    let (mut exported, mut names, mut thread) = (Exported::default(), Names::default(), 0);
    while let Some(event) = reader.next_event()? {
        if let Event::Thread { thread: number } = event {
            thread = number;
            exported.threads += u64::from(!lines::has_threads(format));
            continue;
        }
        exported.beside += u64::from(reader.time().is_some() || reader.site().is_some());
        let Some(operation) = names.translate(&event) else {
            exported.unknown += 1;
            continue;
        };
        if lines::write(format, thread, &operation, &mut exported, out)? {
            exported.operations += u64::from(!matches!(operation, Operation::Failed { .. }));
        }
    }
    Ok(exported)
}

/// The identifiers of blocks in the other format: dense numbers, which a block keeps when it is resized.
#[derive(Default)]
struct Names {
    live: HashMap<u64, u64>,
    next: u64,
}

impl Names {
    /// Translates an event; returns `None` if its block is not live.
    fn translate(&mut self, event: &Event) -> Option<Operation> {
        match *event {
            Event::Allocate { block, kind, size, align } => {
                let id = self.next;
                self.next += 1;
                self.live.insert(block, id);
                Some(Operation::Allocate { kind, id, size, align })
            }
            Event::Resize { block, becomes, size } => {
                let id = self.live.remove(&block)?;
                self.live.insert(becomes, id);
                Some(Operation::Resize { id, size })
            }
            Event::Free { block } => self.live.remove(&block).map(|id| Operation::Free { id }),
            Event::Failed { size, align } => Some(Operation::Failed { size, align }),
            Event::Thread { .. } => None,
        }
    }
}
