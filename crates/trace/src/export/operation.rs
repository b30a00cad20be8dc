//! Events in the terms of another format, and what it cannot express of them.

use crate::event::Kind;

/// An event in the terms of another format.
pub(super) enum Operation {
    Allocate { kind: Kind, id: u64, size: u64, align: u64 },
    Resize { id: u64, size: u64 },
    Free { id: u64 },
    Failed { size: u64, align: u64 },
}

/// Counts of what was exported, and of what the format cannot express.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Exported allocations, resizes and frees.
    pub operations: u64,
    /// Thread changes that were lost.
    pub threads: u64,
    /// Requests whose alignment was lost.
    pub alignments: u64,
    /// Zeroed allocations exported as plain ones.
    pub zeroed: u64,
    /// Failed requests that were lost.
    pub failures: u64,
    /// Events whose time or call site was lost.
    pub beside: u64,
    /// Frees and resizes of blocks that are not live, which are left out.
    pub unknown: u64,
}
