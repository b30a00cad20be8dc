//! Why an import ends early.

use std::fmt;
use std::io;

use crate::error::WriteError;

/// Why an import ended early.
#[derive(Debug)]
#[non_exhaustive]
pub enum ImportError {
    /// The source cannot be read.
    Read(io::Error),
    /// The trace cannot be written.
    Write(WriteError),
    /// The source does not look like any format, or like several.
    UnknownFormat,
    /// The source is packed in a way that is not known.
    Packed {
        /// The program that unpacks it.
        with: &'static str,
    },
    /// The zip file holds no file, or one that can only be read with its directory.
    Zip {
        /// What is wrong with it.
        what: String,
    },
    /// A line is longer than 1 MiB: this is no text of the format.
    LongLine {
        /// Its number, from 1.
        line: u64,
    },
    /// The source defines more than may be held.
    TooMuch {
        /// Of what.
        what: &'static str,
    },
    /// A pickle is damaged, or holds more than values.
    Pickle {
        /// Where, in bytes from its beginning.
        offset: u64,
        /// What is wrong there.
        what: &'static str,
    },
    /// A pickle is no snapshot of memory.
    NoSnapshot {
        /// What it lacks.
        what: &'static str,
    },
    /// There is no such device.
    NoSuchDevice {
        /// How many there are.
        devices: usize,
    },
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImportError::Read(error) => write!(f, "the source cannot be read: {error}"),
            ImportError::Write(error) => error.fmt(f),
            ImportError::UnknownFormat => f.write_str("it is not clear what wrote the source: name its format"),
            ImportError::Packed { with } => write!(f, "the source is packed: unpack it with {with} first"),
            ImportError::Zip { what } => write!(f, "the zip file cannot be read ({what}): unpack it first"),
            ImportError::LongLine { line } => {
                write!(f, "line {line} is longer than 1 MiB: this is no text of that format")
            }
            ImportError::TooMuch { what } => write!(f, "the source has more {what} than are read"),
            ImportError::Pickle { offset, what } => write!(f, "the pickle cannot be read at byte {offset}: {what}"),
            ImportError::NoSnapshot { what } => write!(f, "the pickle is no snapshot of memory: {what}"),
            ImportError::NoSuchDevice { devices } => {
                write!(f, "the snapshot tells of {devices} devices, numbered from 0: choose one of them")
            }
        }
    }
}

impl std::error::Error for ImportError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ImportError::Read(error) => Some(error),
            ImportError::Write(error) => Some(error),
            _ => None,
        }
    }
}

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
