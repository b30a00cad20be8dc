//! Why a replay cannot be, or ends early.

use std::fmt;

use heapwright_placement::RulesError;
use heapwright_trace::ReadError;

/// Why a trace was not replayed to its end.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReplayError {
    /// There can be no heap of these rules and this capacity.
    Rules(RulesError),
    /// The system refuses the address space for the heap's metadata.
    NoRoom {
        /// How many bytes were asked for.
        bytes: usize,
    },
    /// The trace cannot be read.
    Trace(ReadError),
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplayError::Rules(error) => write!(f, "there can be no such heap: {error}"),
            ReplayError::NoRoom { bytes } => {
                write!(
                    f,
                    "the system refuses {bytes} bytes of address space for the heap's metadata: simulate a smaller region"
                )
            }
            ReplayError::Trace(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReplayError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ReplayError::Rules(error) => Some(error),
            ReplayError::NoRoom { .. } => None,
            ReplayError::Trace(error) => Some(error),
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
