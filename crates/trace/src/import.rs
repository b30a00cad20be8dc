//! Imports traces of other tools.
//!
//! The first bytes of a source identify its compression (gzip, zstd, the first file of a zip) and, for most formats,
//! its format. Invalid lines are counted and the first few are kept for the report, and so are frees of blocks that are
//! not live: nothing is dropped silently. The imported trace contains valid frees only.
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
use std::sync::Arc;

use crate::writer::Writer;

mod code_files;
mod csv;
mod detect;
mod error;
mod format;
mod heaptrack;
mod jemalloc;
mod ledger;
mod limits;
mod lines;
mod logalloc;
mod memory_replay;
mod memray;
mod mtrace;
mod pickle;
mod pytorch;
mod rep;
mod rmm;
mod snapshot;
mod summary;
mod unpack;

pub use code_files::{CodeFiles, Located};
pub use error::ImportError;
pub use format::Format;
pub use snapshot::NAME as SNAPSHOT;

/// The name of the text that tells from which format a trace was imported.
pub const IMPORTED_FROM: &str = "imported from";
pub use summary::{LeftOut, Summary};

use ledger::Ledger;
use lines::{Line, Lines};

/// Facts about the source that it does not contain itself.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The format; `None` to detect it from the first bytes and the name.
    pub format: Option<Format>,
    /// The name of the source file.
    pub name: String,
    /// The device to import, from 0, if the source covers several devices.
    pub device: usize,
    /// The process to import, if the format records several: `None` for the first.
    pub process: Option<u64>,
    /// The files with the code of the process, for formats whose stacks have addresses only.
    pub files: Option<Arc<dyn CodeFiles>>,
}

impl Options {
    /// Returns options for a source of this format.
    #[must_use]
    pub fn of(format: Format) -> Options {
        Options { format: Some(format), ..Options::default() }
    }
}

/// The number of bytes at the start of a source that format detection examines.
const DETECTION_BYTES: u64 = 4096;

/// Reads all of `source` and writes it as events. Memory: proportional to the blocks live at one time and to the call
/// sites; for [`Format::PyTorch`], to the length of the source.
///
/// # Errors
/// [`ImportError`]. Invalid lines are not an error: the [`Summary`] counts them.
pub fn import<W: Write>(
    options: &Options,
    source: impl BufRead,
    writer: &mut Writer<W>,
) -> Result<Summary, ImportError> {
    let (first, source) = unpack::peeked(source, DETECTION_BYTES)?;
    if detect::is_memray_capture(&first) {
        return Err(ImportError::Converted { by: "memray transform csv" });
    }
    unpack::unpacked(source, |source| {
        let (first, source) = unpack::peeked(source, DETECTION_BYTES)?;
        let format = options.format.or_else(|| Format::detect(&first, &options.name));
        let format = format.ok_or(ImportError::UnknownFormat)?;
        let mut ledger = Ledger::new(writer);
        ledger.summary.format = Some(format);
        match format {
            Format::PyTorch => pytorch::read(source, options.device, &mut ledger)?,
            _ => read_lines(format, options, source, &mut ledger)?,
        }
        Ok(ledger.summary)
    })
}

fn read_lines<W: Write>(
    format: Format,
    options: &Options,
    source: impl BufRead,
    ledger: &mut Ledger<'_, W>,
) -> Result<(), ImportError> {
    let mut lines = Lines::new(source);
    let mut logalloc = logalloc::Logalloc::of(options.process);
    let mut rep = rep::Rep::default();
    let mut heaptrack = heaptrack::Heaptrack::default();
    let mut memray = memray::Memray::default();
    let mut jemalloc = jemalloc::Jemalloc::default();
    while let Some((number, line)) = lines.next_line()? {
        ledger.summary.lines = number;
        ledger.at_line(number, line);
        let line_result = match format {
            Format::Csv => csv::read(line, ledger),
            Format::Rep => rep.read(line, ledger),
            Format::MemoryReplay => memory_replay::read(line, ledger),
            Format::Logalloc => logalloc.read(line, ledger),
            Format::Mtrace => mtrace::read(line, ledger),
            Format::Rmm => rmm::read(line, ledger),
            Format::Heaptrack => heaptrack.read(line, ledger),
            Format::Memray => memray.read(line, ledger),
            Format::Jemalloc => jemalloc.read(line, ledger),
            // Not a line format; `import` never calls this function for it.
            Format::PyTorch => Ok(Line::NotUnderstood),
        }?;
        match line_result {
            Line::Done => {}
            Line::OfAnotherProcess => ledger.summary.of_other_processes += 1,
            Line::PassedOver => ledger.summary.passed_over += 1,
            Line::NotUnderstood => ledger.summary.not_understood.add(number, line),
        }
    }
    jemalloc.finish(options.files.as_deref(), ledger)?;
    heaptrack.finish(ledger)
}
