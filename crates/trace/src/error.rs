//! Errors of reading and writing traces.

use std::fmt;
use std::io;

/// A defect of a frame.
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
            Fault::TooLong => "its header names a length above the limit of a frame",
            Fault::CutOff => "the file ends inside it",
            Fault::Contents => "its contents are damaged: the checksum does not match",
            Fault::Event => "it contains an invalid event",
            Fault::Order => "its numbers do not continue those of the frame before it",
            Fault::Side => "its times or call sites do not match its events",
            Fault::Site => "it contains an invalid call site, or call sites above the limit of a trace",
            Fault::Texts => "it contains an invalid text, or texts above the limit of a trace",
        })
    }
}

/// The reason why reading a trace failed or ended early.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// Reading from the source failed.
    Io(io::Error),
    /// The file is not a trace.
    NotATrace,
    /// The format version of the trace is not supported.
    Version {
        /// The version of the trace.
        found: u32,
    },
    /// A frame is damaged. The reader has returned all events before it.
    Damaged {
        /// The number of the frame, from 0.
        frame: u64,
        /// The offset of the frame in the file, in bytes.
        offset: u64,
        /// The number of events before the frame.
        events_before: u64,
        /// The defect, for people.
        what: String,
    },
    /// The trace has no end: it was cut off between two frames. The reader has returned all events.
    Unfinished {
        /// The number of events.
        events: u64,
    },
    /// The file goes on behind the end of the trace. The reader has returned all events, and ignores the rest.
    Followed {
        /// The number of bytes behind the end.
        bytes: u64,
        /// The number of events.
        events: u64,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::Io(error) => write!(f, "the trace cannot be read: {error}"),
            ReadError::NotATrace => f.write_str("this is not a trace: it does not begin with \"hwtrace\""),
            ReadError::Version { found } => {
                let newest = crate::VERSION;
                write!(
                    f,
                    "the trace has format version {found}, this program reads up to {newest}: use a newer program"
                )
            }
            ReadError::Damaged { frame, offset, events_before, what } => write!(
                f,
                "frame {frame} of the trace, at byte {offset}: {what}; {}",
                intact(*events_before, "before it")
            ),
            ReadError::Unfinished { events } => {
                write!(f, "the trace was cut off: it has no end; {}", intact(*events, "in it"))
            }
            ReadError::Followed { bytes, events } => write!(
                f,
                "{} the end of the trace and {} ignored; {}",
                if *bytes == 1 { "1 byte follows".to_owned() } else { format!("{bytes} bytes follow") },
                if *bytes == 1 { "is" } else { "are" },
                intact(*events, "before"),
            ),
        }
    }
}

/// Describes the events that can be used.
fn intact(events: u64, place: &str) -> String {
    match events {
        1 => format!("the 1 event {place} is intact"),
        events => format!("the {events} events {place} are intact"),
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // The message contains that of the error, so that no chain of messages repeats it.
            ReadError::Io(error) => error.source(),
            _ => None,
        }
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        ReadError::Io(error)
    }
}

/// The reason why writing a trace failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum WriteError {
    /// Writing to the destination failed.
    Io(io::Error),
    /// The block has not been allocated at this point of the trace.
    NoSuchBlock {
        /// The number of the block.
        block: u64,
    },
    /// The alignment is not a power of two.
    BadAlignment {
        /// The alignment.
        align: u64,
    },
    /// The call site has not been defined at this point of the trace.
    NoSuchSite {
        /// The number of the call site.
        site: u32,
    },
    /// The call sites or the texts exceed the limit of a trace.
    TooMuch {
        /// The kind of data that exceeds its limit.
        what: &'static str,
        /// The limit in bytes.
        limit: usize,
    },
    /// The file has reached the length to which the writer was limited.
    LimitReached {
        /// The limit in bytes.
        limit: u64,
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
                write!(f, "the trace has too many {what} (the limit is {limit} bytes): leave some out")
            }
            WriteError::LimitReached { limit } => write!(f, "the trace has reached its limit of {limit} bytes"),
            WriteError::BadAlignment { align } => write!(f, "alignment {align} is not a power of two"),
        }
    }
}

impl std::error::Error for WriteError {}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        WriteError::Io(error)
    }
}
