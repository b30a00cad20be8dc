//! Queries of a growing heap besides those of its placement.

use core::alloc::Layout;
use core::ptr::NonNull;

use heapwright_placement::{BlockState, Violation};

use super::GrowingHeap;
use crate::policy::Policy;

impl<P: Policy> GrowingHeap<P> {
    /// Returns the engine's metadata, for readers outside the process (see [`Glance`](heapwright_placement::Glance)).
    /// It does not move while the heap lives, and the heap writes to it. Only what describes the heap up to its end is
    /// mapped.
    #[must_use]
    pub fn metadata(&self) -> NonNull<[u64]> {
        let metadata = &self.metadata;
        NonNull::slice_from_raw_parts(metadata.cells(), metadata.length() / size_of::<u64>())
    }

    /// Returns the offset from which on no byte of the region has ever been used: what lies there is zero.
    #[must_use]
    pub fn untouched_from(&self) -> usize {
        self.region.frontier()
    }

    /// Returns whether a block for `layout` behind all others would lie within the capacity: then only the system
    /// refuses the request.
    #[must_use]
    pub fn has_addresses_for(&self, layout: Layout) -> bool {
        self.end_with(layout).is_some_and(|end| end <= self.design.capacity)
    }

    /// Returns the number of bytes from the base on that are accessible.
    #[must_use]
    pub fn committed(&self) -> usize {
        self.region.committed()
    }

    /// Verifies the engine's invariants and that every live block is backed with memory. Time: proportional to the
    /// heap.
    ///
    /// # Errors
    /// The first invariant that is violated.
    pub fn check(&self) -> Result<(), Violation> {
        self.placement.check()?;
        let frontier = self.region.frontier();
        let bare = self.blocks().find(|block| block.state == BlockState::Used && block.offset + block.size > frontier);
        match bare {
            Some(block) => Err(Violation { invariant: "used blocks are backed with memory", offset: block.offset }),
            None if frontier > self.region.committed() => {
                Err(Violation { invariant: "what is used is committed", offset: self.region.committed() })
            }
            None => Ok(()),
        }
    }
}
