//! An allocator that does nothing, for measuring the cost of the harness.

use std::hint::black_box;

use anyhow::Result;

use super::super::subject::Subject;
use heapwright_host::lazy::Lazy;

/// Longer than every block of every workload, so that workloads can write to their blocks.
const SCRATCH: usize = 1 << 16;

struct NoOp {
    scratch: Lazy<u8>,
}

/// The allocator that does nothing.
pub fn build() -> Result<Box<dyn Subject>> {
    Ok(Box::new(NoOp { scratch: Lazy::committed(SCRATCH)? }))
}

impl Subject for NoOp {
    fn allocate(&mut self, bytes: usize) -> Option<usize> {
        black_box(bytes);
        (bytes <= SCRATCH).then(|| black_box(self.scratch.as_mut_ptr()) as usize)
    }

    fn free(&mut self, block: usize, bytes: usize) {
        black_box((block, bytes));
    }
}
