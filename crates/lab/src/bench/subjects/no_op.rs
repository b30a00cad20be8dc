//! The allocator that does nothing: what it takes is what the measuring takes.

use std::hint::black_box;

use anyhow::Result;

use super::super::lazy::Lazy;
use super::super::subject::Subject;

/// Longer than any block of any workload, so that a workload that touches its blocks has somewhere to write.
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
