//! Why a heap cannot be sampled.

use std::fmt;

use heapwright_os::ForeignError;

/// Why a heap cannot be sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unseen {
    /// The process does not exist (any more).
    Gone,
    /// The system denies access to the process.
    Denied,
    /// The drop-in library is not loaded, or not initialized.
    NoHeap,
    /// The library has another version.
    OtherVersion,
    /// The memory where the heap should be does not contain a heap.
    NotAHeap,
    /// A part of what describes the heap is in swap.
    Swapped,
}

impl From<ForeignError> for Unseen {
    fn from(error: ForeignError) -> Unseen {
        match error {
            ForeignError::Denied => Unseen::Denied,
            ForeignError::Gone => Unseen::Gone,
            ForeignError::Unmapped | ForeignError::Other(_) => Unseen::NotAHeap,
        }
    }
}

impl fmt::Display for Unseen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unseen::Gone => "there is no such process (any more)",
            Unseen::Denied => {
                "the system does not let this user read its memory: processes of other users are for root only, and if \
                 /proc/sys/kernel/yama/ptrace_scope is not 0, so are all processes \
                 that `heapwright watch -- PROGRAM` did not start"
            }
            Unseen::NoHeap => {
                "it does not run under libheapwright.so: start it with `heapwright watch -- PROGRAM` or \
                 `heapwright run -- PROGRAM`"
            }
            Unseen::OtherVersion => "its libheapwright.so is of another version than this command",
            Unseen::NotAHeap => "there is no heap where its libheapwright.so claims one",
            Unseen::Swapped => {
                "what describes its heap is in swap, and reading would bring it back: try again when the program has \
                 worked on its heap"
            }
        })
    }
}

impl std::error::Error for Unseen {}
