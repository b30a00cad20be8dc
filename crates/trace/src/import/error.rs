//! Errors of an import.

use std::fmt;
use std::io;

use crate::error::WriteError;

/// The reason why an import ended early.
#[derive(Debug)]
#[non_exhaustive]
pub enum ImportError {
    /// The source cannot be read.
    Read(io::Error),
    /// The trace cannot be written.
    Write(WriteError),
    /// The source does not look like any format, or like several.
    UnknownFormat,
    /// The compression of the source is not supported.
    Packed {
        /// The program that decompresses it.
        with: &'static str,
    },
    /// The source is in a format that only the tool that wrote it can read, and that this command of it converts.
    Converted {
        /// The command.
        by: &'static str,
    },
    /// The zip file contains no file, or one that cannot be read without the directory of the zip file.
    Zip {
        /// The defect, for people.
        what: String,
    },
    /// A line is longer than 1 MiB: the source is not text in this format.
    LongLine {
        /// The number of the line, from 1.
        line: u64,
    },
    /// The definitions in the source exceed the memory limit of the importer.
    TooMuch {
        /// The kind of definitions.
        what: &'static str,
    },
    /// A pickle is damaged, or contains objects or calls.
    Pickle {
        /// The offset of the defect in the pickle, in bytes.
        offset: u64,
        /// The defect, for people.
        what: &'static str,
    },
    /// A pickle is not a memory snapshot.
    NoSnapshot {
        /// The missing part, for people.
        what: &'static str,
    },
    /// The snapshot does not have the requested device.
    NoSuchDevice {
        /// The number of devices in the snapshot.
        devices: usize,
    },
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImportError::Read(error) => write!(f, "the source cannot be read: {error}"),
            ImportError::Write(error) => error.fmt(f),
            ImportError::UnknownFormat => f.write_str("the format of the source cannot be detected: name it"),
            ImportError::Packed { with } => write!(f, "the source is compressed: decompress it with {with} first"),
            ImportError::Converted { by } => write!(f, "the source is to be converted first: {by} FILE"),
            ImportError::Zip { what } => write!(f, "the zip file cannot be read ({what}): decompress it first"),
            ImportError::LongLine { line } => {
                write!(f, "line {line} is longer than 1 MiB: this is not text in that format")
            }
            ImportError::TooMuch { what } => write!(f, "the source has too many {what}"),
            ImportError::Pickle { offset, what } => write!(f, "the pickle cannot be read at byte {offset}: {what}"),
            ImportError::NoSnapshot { what } => write!(f, "the pickle is not a memory snapshot: {what}"),
            ImportError::NoSuchDevice { devices } => {
                write!(f, "the snapshot has {devices} devices, numbered from 0: choose one of them")
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
