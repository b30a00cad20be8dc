//! Traces that other tools wrote, turned into ours.
//!
//! Every importer reads lines, one event each. A line that it does not understand is counted and the first few are kept: nothing is
//! passed over in silence. So are frees of blocks that do not live; the trace that comes out has only frees that are right.
//!
//! ```
//! use heapwright_trace::{About, Event, Reader, Writer, import};
//!
//! let text = "op,id,size\nmalloc,1,100\nwhat is this\nfree,1\nfree,7\n";
//! let mut writer = Writer::new(Vec::new(), &About::default())?;
//! let summary = import::import(import::Format::Csv, text.as_bytes(), &mut writer)?;
//! assert_eq!((summary.events, summary.not_understood.count, summary.unknown_blocks.count), (2, 1, 1));
//! assert_eq!(summary.not_understood.first[0], (3, "what is this".to_owned()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt;
use std::io::{self, BufRead, Write};

use crate::error::WriteError;
use crate::writer::Writer;

mod book;
mod csv;
mod lines;
mod logalloc;
mod memory_replay;
mod mtrace;
mod rep;
mod rmm;

use book::Book;
use lines::Lines;

/// Whose form a trace has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// `op,id,size` with an optional alignment: `malloc,1,100`, `calloc,2,40`, `aligned,3,64,32`, `realloc,1,200`, `free,1`.
    Csv,
    /// The `.rep` files of CS:APP's malloc lab: two to four integers, then `a 0 512`, `r 0 640`, `f 0`.
    Rep,
    /// Android's memory_replay: `1234: malloc 0x7f00 100`.
    MemoryReplay,
    /// Mozilla's logalloc: `1234 1234 malloc(40)=#1`.
    Logalloc,
    /// glibc's mtrace: `@ ./a.out:[0x4005e6] + 0x602460 0x64`.
    Mtrace,
    /// The log of RAPIDS RMM: `Thread,Time,Action,Pointer,Size,Stream`.
    Rmm,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 6] =
        [Format::Csv, Format::Rep, Format::MemoryReplay, Format::Logalloc, Format::Mtrace, Format::Rmm];

    /// The name by which people choose it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Format::Csv => "csv",
            Format::Rep => "rep",
            Format::MemoryReplay => "memory-replay",
            Format::Logalloc => "logalloc",
            Format::Mtrace => "mtrace",
            Format::Rmm => "rmm",
        }
    }

    /// The format of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Format> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }
}

/// Lines that are not in the trace, and why is clear from where they are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// How many.
    pub count: u64,
    /// The first few: line number from 1, and the line, cut when long.
    pub first: Vec<(u64, String)>,
}

impl LeftOut {
    const KEPT: usize = 5;
    const LONGEST: usize = 120;

    fn add(&mut self, number: u64, line: &str) {
        self.count += 1;
        if self.first.len() < Self::KEPT {
            self.first.push((number, line.chars().take(Self::LONGEST).collect()));
        }
    }
}

/// What became of a trace that was imported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Lines read.
    pub lines: u64,
    /// Events written.
    pub events: u64,
    /// Lines that say something, but of no heap's blocks: headers, notes, requests that failed, frees of nothing.
    pub passed_over: u64,
    /// Lines that are not understood.
    pub not_understood: LeftOut,
    /// Frees and resizes of blocks that do not live.
    pub unknown_blocks: LeftOut,
    /// Allocations at a place where a block still lived; that block is taken to have been freed unseen.
    pub reused_places: LeftOut,
}

/// Why an import ended early.
#[derive(Debug)]
#[non_exhaustive]
pub enum ImportError {
    /// The source cannot be read.
    Read(io::Error),
    /// The trace cannot be written.
    Write(WriteError),
    /// A line is longer than 1 MiB: this is no text of the format.
    LongLine {
        /// Its number, from 1.
        line: u64,
    },
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImportError::Read(error) => write!(f, "the source cannot be read: {error}"),
            ImportError::Write(error) => error.fmt(f),
            ImportError::LongLine { line } => {
                write!(f, "line {line} is longer than 1 MiB: this is no text of that format")
            }
        }
    }
}

impl std::error::Error for ImportError {}

impl From<io::Error> for ImportError {
    fn from(error: io::Error) -> Self {
        ImportError::Read(error)
    }
}

impl From<WriteError> for ImportError {
    fn from(error: WriteError) -> Self {
        ImportError::Write(error)
    }
}

/// What a line says.
enum Line {
    /// An event, or several, were written.
    Done,
    /// Nothing about blocks.
    PassedOver,
    NotUnderstood,
}

/// Reads all of `source` and writes it as events. Memory: proportional to the blocks that live at one time.
///
/// # Errors
/// [`ImportError`]. Lines that are not understood are no error, but part of the [`Summary`].
pub fn import<W: Write>(format: Format, source: impl BufRead, writer: &mut Writer<W>) -> Result<Summary, ImportError> {
    let mut book = Book::new(writer);
    let mut lines = Lines::new(source);
    let mut rep = rep::Rep::default();
    while let Some((number, line)) = lines.next_line()? {
        book.summary.lines = number;
        book.at_line(number, line);
        let said = match format {
            Format::Csv => csv::read(line, &mut book),
            Format::Rep => rep.read(line, &mut book),
            Format::MemoryReplay => memory_replay::read(line, &mut book),
            Format::Logalloc => logalloc::read(line, &mut book),
            Format::Mtrace => mtrace::read(line, &mut book),
            Format::Rmm => rmm::read(line, &mut book),
        }?;
        match said {
            Line::Done => {}
            Line::PassedOver => book.summary.passed_over += 1,
            Line::NotUnderstood => book.summary.not_understood.add(number, line),
        }
    }
    Ok(book.summary)
}
