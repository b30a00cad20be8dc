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
use crate::event::Event;
use crate::import::Format;
use crate::reader::Reader;

mod extent;
mod lines;
mod operation;
mod timeline;

pub use self::extent::Extent;
pub use self::operation::Exported;
use self::operation::Operation;
pub use self::timeline::{Clock, Timeline, export_timeline};

/// The formats that traces can be exported to.
pub const FORMATS: [Format; 4] = [Format::Csv, Format::Rep, Format::MemoryReplay, Format::Mtrace];

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
