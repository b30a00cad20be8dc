//! The code of workloads.

use heapwright_host::lazy::{Lazy, Plain};

use crate::probe::Probe;
use crate::subject::{Stage, Stop};

/// The code of a workload: the preparation of a heap, and a round of measured operations.
pub trait Script: Sized {
    /// Prepares the heap.
    fn settle(size: usize, stage: &mut Stage) -> Result<Self, Stop>;

    /// Performs a round, and leaves the heap in an equivalent state.
    fn run<P: Probe>(&mut self, stage: &mut Stage, probe: &mut P) -> Result<(), Stop>;
}

/// Allocates a table of a workload: committed memory outside the heap under test.
pub(super) fn table<T: Plain>(len: usize) -> Result<Lazy<T>, Stop> {
    Lazy::committed(len).map_err(|_| Stop::NoMemory)
}
