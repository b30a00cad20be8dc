//! Our traces in the form of others, for tools that read those.
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
//! let extent = export::Extent::of(Reader::new(&trace[..])?)?;
//! let exported = export::export(Format::Rep, &extent, Reader::new(&trace[..])?, &mut text)?;
//! assert_eq!(text, b"100\n1\n2\n1\na 0 100\nf 0\n");
//! assert_eq!(exported.operations, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Read, Write};

use crate::error::ReadError;
use crate::event::{Event, Kind};
use crate::import::Format;
use crate::reader::Reader;

mod lines;

/// The formats in which traces can be written.
pub const FORMATS: [Format; 4] = [Format::Csv, Format::Rep, Format::MemoryReplay, Format::Mtrace];

/// How much there is of a trace; some formats say so in front.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Blocks, those counted once that are resized.
    pub blocks: u64,
    /// Allocations, resizes and frees of blocks that live.
    pub operations: u64,
    /// The most bytes, as asked for, that lived at one time.
    pub peak: u64,
}

impl Extent {
    /// Reads all of a trace, up to its damage if it has some. Memory: proportional to the blocks that live at one time.
    ///
    /// # Errors
    /// [`ReadError::Io`].
    pub fn of(mut reader: Reader<impl Read>) -> Result<Extent, ReadError> {
        let (mut extent, mut sizes, mut live) = (Extent::default(), HashMap::new(), 0u64);
        while let Some(event) = until_damage(reader.next_event())? {
            let (goes, appears) = match event {
                Event::Allocate { block, size, .. } => (None, Some((block, size))),
                Event::Resize { block, becomes, size } => (Some(block), Some((becomes, size))),
                Event::Free { block } => (Some(block), None),
                Event::Failed { .. } | Event::Thread { .. } => continue,
            };
            let freed = goes.map(|block| sizes.remove(&block));
            if freed == Some(None) {
                continue;
            }
            extent.operations += 1;
            extent.blocks += u64::from(goes.is_none());
            // Sizes that no machine has may add up to more than a number holds.
            live = live.saturating_sub(freed.flatten().unwrap_or(0));
            if let Some((block, size)) = appears {
                live = live.saturating_add(size);
                sizes.insert(block, size);
            }
            extent.peak = extent.peak.max(live);
        }
        Ok(extent)
    }
}

/// Takes damage for the end.
fn until_damage(read: Result<Option<Event>, ReadError>) -> Result<Option<Event>, ReadError> {
    match read {
        Err(ReadError::Damaged { .. }) => Ok(None),
        read => read,
    }
}

/// What was written, and what the format could not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Allocations, resizes and frees.
    pub operations: u64,
    /// Changes of the thread that are not said.
    pub threads: u64,
    /// Allocations whose alignment is not said.
    pub alignments: u64,
    /// Allocations of which it is not said that they are zeroed.
    pub zeroed: u64,
    /// Refused requests that are not said.
    pub failures: u64,
    /// Events whose time or call site is not said.
    pub beside: u64,
    /// Frees and resizes of blocks that do not live, which are not written.
    pub unknown: u64,
}

/// Why an export ended early.
#[derive(Debug)]
pub enum ExportError {
    /// The trace cannot be read, or not further.
    Read(ReadError),
    /// The system refused to write.
    Write(io::Error),
    /// There is no writer for this format.
    NoWriter(Format),
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExportError::Read(error) => error.fmt(f),
            ExportError::Write(error) => write!(f, "it cannot be written: {error}"),
            ExportError::NoWriter(format) => write!(f, "traces are not written as {}", format.name()),
        }
    }
}

impl std::error::Error for ExportError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ExportError::Read(error) => Some(error),
            ExportError::Write(error) => Some(error),
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

/// What a line of another format says.
enum Said {
    Allocate { kind: Kind, id: u64, size: u64, align: u64 },
    Resize { id: u64, size: u64 },
    Free { id: u64 },
    Failed { size: u64, align: u64 },
}

/// Writes all of a trace in another form; `extent` is that of the same trace. Memory: proportional to the blocks that live at one
/// time.
///
/// # Errors
/// [`ExportError`]; when the trace is damaged, what is before the damage has been written.
pub fn export(
    format: Format,
    extent: &Extent,
    reader: Reader<impl Read>,
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

fn write_events(format: Format, mut reader: Reader<impl Read>, out: &mut impl Write) -> Result<Exported, ExportError> {
    let (mut exported, mut names, mut thread) = (Exported::default(), Names::default(), 0);
    while let Some(event) = reader.next_event()? {
        if let Event::Thread { thread: number } = event {
            thread = number;
            exported.threads += u64::from(!lines::has_threads(format));
            continue;
        }
        exported.beside += u64::from(reader.time().is_some() || reader.site().is_some());
        let Some(said) = names.translate(&event) else {
            exported.unknown += 1;
            continue;
        };
        if lines::write(format, thread, &said, &mut exported, out)? {
            exported.operations += u64::from(!matches!(said, Said::Failed { .. }));
        }
    }
    Ok(exported)
}

/// What blocks are called in the other format: a block keeps its name when it is resized, and names are dense.
#[derive(Default)]
struct Names {
    live: HashMap<u64, u64>,
    next: u64,
}

impl Names {
    /// What an event says there; `None` when it is of a block that does not live.
    fn translate(&mut self, event: &Event) -> Option<Said> {
        match *event {
            Event::Allocate { block, kind, size, align } => {
                let id = self.next;
                self.next += 1;
                self.live.insert(block, id);
                Some(Said::Allocate { kind, id, size, align })
            }
            Event::Resize { block, becomes, size } => {
                let id = self.live.remove(&block)?;
                self.live.insert(becomes, id);
                Some(Said::Resize { id, size })
            }
            Event::Free { block } => self.live.remove(&block).map(|id| Said::Free { id }),
            Event::Failed { size, align } => Some(Said::Failed { size, align }),
            Event::Thread { .. } => None,
        }
    }
}
