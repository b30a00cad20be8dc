//! Counts of what was recorded of a process.

/// Counts of what was recorded of a process's heap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Blocks that appeared by allocation.
    pub allocations: u64,
    /// Blocks that were resized.
    pub resizes: u64,
    /// Blocks that were freed.
    pub frees: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Frees and resizes of addresses with no recorded block; the frees have no event.
    pub unknown: u64,
    /// Blocks whose address was returned again without a recorded free; the trace frees them then.
    pub unseen_frees: u64,
    /// Peak of live requested bytes.
    pub peak_live: u64,
    /// Number of threads that made calls.
    pub threads: u64,
    /// Live requested bytes.
    pub(crate) live: u64,
}

impl Figures {
    /// Returns the number of events, without those that only name a thread.
    pub fn events(&self) -> u64 {
        self.allocations + self.resizes + self.frees + self.failed
    }

    /// Returns the number of blocks.
    pub fn blocks(&self) -> u64 {
        self.allocations + self.resizes
    }
}
