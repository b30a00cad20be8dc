//! Traces that other tools wrote, turned into ours.
//!
//! What a source is packed with (gzip, zstd, the first file of a zip) is seen from its first bytes, and mostly so is its form.
//! A line that is not understood is counted and the first few are kept: nothing is passed over in silence. So are frees of blocks
//! that do not live; the trace that comes out has only frees that are right.
//!
//! ```
//! use heapwright_trace::{About, Event, Reader, Writer, import};
//!
//! let text = "op,id,size\nmalloc,1,100\nwhat is this\nfree,1\nfree,7\n";
//! let mut writer = Writer::new(Vec::new(), &About::default())?;
//! let summary = import::import(&import::Options::default(), text.as_bytes(), &mut writer)?;
//! assert_eq!(summary.format, Some(import::Format::Csv));
//! assert_eq!((summary.events, summary.not_understood.count, summary.unknown_blocks.count), (2, 1, 1));
//! assert_eq!(summary.not_understood.first[0], (3, "what is this".to_owned()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::io::{BufRead, Write};

use crate::writer::Writer;

mod book;
mod csv;
mod detect;
mod error;
mod format;
mod heaptrack;
mod lines;
mod logalloc;
mod memory_replay;
mod mtrace;
mod pickle;
mod pytorch;
mod rep;
mod rmm;
mod summary;
mod unpack;

pub use error::ImportError;
pub use format::Format;
pub use summary::{LeftOut, Summary};

use book::Book;
use lines::Lines;

/// What the source does not tell about itself.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whose form it has; `None` to find out from its first bytes and its name.
    pub format: Option<Format>,
    /// The name of the file.
    pub name: String,
    /// Of a source that tells of several devices: which, from 0.
    pub device: usize,
}

impl Options {
    /// A source of this form.
    #[must_use]
    pub fn of(format: Format) -> Options {
        Options { format: Some(format), ..Options::default() }
    }
}

/// How many bytes of a source tell what wrote it.
const DETECTED: u64 = 4096;

/// What a line says.
enum Line {
    /// An event, or several, were written.
    Done,
    /// Nothing about blocks.
    PassedOver,
    NotUnderstood,
}

/// Reads all of `source` and writes it as events. Memory: proportional to the blocks that live at one time, and to the call sites
/// where there are some; for [`Format::PyTorch`], to the length of the source.
///
/// # Errors
/// [`ImportError`]. Lines that are not understood are no error, but part of the [`Summary`].
pub fn import<W: Write>(
    options: &Options,
    source: impl BufRead,
    writer: &mut Writer<W>,
) -> Result<Summary, ImportError> {
    unpack::unpacked(source, |source| {
        let (first, source) = unpack::peeked(source, DETECTED)?;
        let format = options.format.or_else(|| Format::detect(&first, &options.name));
        let format = format.ok_or(ImportError::UnknownFormat)?;
        let mut book = Book::new(writer);
        book.summary.format = Some(format);
        match format {
            Format::PyTorch => pytorch::read(source, options.device, &mut book)?,
            _ => read_lines(format, source, &mut book)?,
        }
        Ok(book.summary)
    })
}

fn read_lines<W: Write>(format: Format, source: impl BufRead, book: &mut Book<'_, W>) -> Result<(), ImportError> {
    let mut lines = Lines::new(source);
    let mut rep = rep::Rep::default();
    let mut heaptrack = heaptrack::Heaptrack::default();
    while let Some((number, line)) = lines.next_line()? {
        book.summary.lines = number;
        book.at_line(number, line);
        let said = match format {
            Format::Csv => csv::read(line, book),
            Format::Rep => rep.read(line, book),
            Format::MemoryReplay => memory_replay::read(line, book),
            Format::Logalloc => logalloc::read(line, book),
            Format::Mtrace => mtrace::read(line, book),
            Format::Rmm => rmm::read(line, book),
            Format::Heaptrack => heaptrack.read(line, book),
            // No lines.
            Format::PyTorch => Ok(Line::NotUnderstood),
        }?;
        match said {
            Line::Done => {}
            Line::PassedOver => book.summary.passed_over += 1,
            Line::NotUnderstood => book.summary.not_understood.add(number, line),
        }
    }
    heaptrack.finish(book)
}
