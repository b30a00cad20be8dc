//! What can be wrong with a trace.

use std::fmt;
use std::io;

/// What is wrong with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Header,
    TooLong,
    CutOff,
    Contents,
    Event,
    Order,
    Side,
    Site,
    Texts,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::Header => "its header is damaged",
            Fault::TooLong => "its header promises more than a frame may hold",
            Fault::CutOff => "the file ends in it",
            Fault::Contents => "its contents are damaged: the checksum differs",
            Fault::Event => "it holds something that is no event",
            Fault::Order => "it does not follow the frame before it",
            Fault::Side => "its times or call sites are not those of its events",
            Fault::Site => "it holds something that is no call site, or more of them than a trace may",
            Fault::Texts => "it holds something that is no texts, or more of them than a trace may",
        })
    }
}

/// Why a trace could not be read, or not further.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// The system refused to read.
    Io(io::Error),
    /// The file is no trace.
    NotATrace,
    /// The trace is of a version that this program does not know.
    Version {
        /// The version of the trace.
        found: u32,
    },
    /// A frame is damaged. All events before it have been read.
    Damaged {
        /// Which frame, from 0.
        frame: u64,
        /// Where in the file it begins, in bytes.
        offset: u64,
        /// How many events come before it.
        events_before: u64,
        /// What is wrong with it.
        what: String,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Io(error) => write!(f, "the trace cannot be read: {error}"),
            ReadError::NotATrace => f.write_str("this is no trace: it does not begin like one"),
            ReadError::Version { found } => {
                write!(
                    f,
                    "the trace is of version {found}, this program reads up to {}: use a newer one",
                    crate::VERSION
                )
            }
            ReadError::Damaged { frame, offset, events_before, what } => write!(
                f,
                "frame {frame} of the trace, at byte {offset}: {what}; the {events_before} events before it are intact"
            ),
        }
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ReadError::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        ReadError::Io(error)
    }
}

/// Why a trace could not be written.
#[derive(Debug)]
#[non_exhaustive]
pub enum WriteError {
    /// The system refused to write.
    Io(io::Error),
    /// A block was named that has not appeared.
    NoSuchBlock {
        /// Its number.
        block: u64,
    },
    /// An alignment is no power of two.
    BadAlignment {
        /// The alignment.
        align: u64,
    },
    /// A call site was named that has not been defined.
    NoSuchSite {
        /// Its number.
        site: u32,
    },
    /// There are more call sites, or more texts, than a trace may hold.
    TooMuch {
        /// Of what.
        what: &'static str,
        /// How much of it a trace may hold, in bytes.
        limit: usize,
    },
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WriteError::Io(error) => write!(f, "the trace cannot be written: {error}"),
            WriteError::NoSuchBlock { block } => {
                write!(f, "block {block} has not been allocated at this point of the trace")
            }
            WriteError::NoSuchSite { site } => {
                write!(f, "call site {site} has not been defined at this point of the trace")
            }
            WriteError::TooMuch { what, limit } => {
                write!(f, "these are more {what} than a trace may hold ({limit} bytes): leave some out")
            }
            WriteError::BadAlignment { align } => write!(f, "{align} is no alignment: not a power of two"),
        }
    }
}

impl std::error::Error for WriteError {}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        WriteError::Io(error)
    }
}
