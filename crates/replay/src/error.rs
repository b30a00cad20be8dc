//! Errors of a replay.

use std::fmt;
use std::io;

use heapwright_os::MemoryLimit;
use heapwright_placement::RulesError;
use heapwright_trace::ReadError;

/// The reason why a trace was not replayed to its end.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReplayError {
    /// The rules or the capacity of the heap are invalid.
    Rules(RulesError),
    /// The system refused memory for the metadata of the heap.
    NoRoom {
        /// The requested bytes.
        bytes: usize,
    },
    /// The trace cannot be read.
    Trace(ReadError),
    /// The system has no room for a thread.
    NoThread(io::Error),
    /// The temporary file for the places of blocks cannot be written or read.
    Places(io::Error),
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplayError::Rules(error) => write!(f, "invalid heap: {error}"),
            ReplayError::NoRoom { bytes } => {
                let advice = MemoryLimit::of_this_process().advice();
                write!(f, "no memory for the metadata of so long a heap ({bytes} bytes for the longest): {advice}")
            }
            ReplayError::NoThread(_) => f.write_str("cannot start a thread for the replay"),
            ReplayError::Trace(error) => error.fmt(f),
            ReplayError::Places(error) => {
                write!(f, "a temporary file for the places of blocks cannot be written: {error}")
            }
        }
    }
}

impl std::error::Error for ReplayError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ReplayError::NoThread(error) => Some(error),
            // The other messages contain those of the errors, so that no chain of messages repeats one.
            ReplayError::Rules(error) => error.source(),
            ReplayError::NoRoom { .. } => None,
            ReplayError::Trace(error) => error.source(),
            ReplayError::Places(error) => error.source(),
        }
    }
}

impl From<RulesError> for ReplayError {
    fn from(error: RulesError) -> Self {
        ReplayError::Rules(error)
    }
}

impl From<ReadError> for ReplayError {
    fn from(error: ReadError) -> Self {
        ReplayError::Trace(error)
    }
}

impl From<io::Error> for ReplayError {
    fn from(error: io::Error) -> Self {
        ReplayError::Places(error)
    }
}
