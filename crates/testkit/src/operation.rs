//! Operations on a heap, in terms that stay meaningful when earlier operations are left out.

/// One operation of an [`Engine`](heapwright_placement::Engine).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// An allocation. The alignment may be invalid.
    Allocate {
        /// The requested size in bytes.
        bytes: usize,
        /// The requested alignment in bytes.
        align: usize,
    },
    /// A free without the size.
    Deallocate(Target),
    /// A free with the size.
    DeallocateSized(Target, ClaimedSize),
    /// A resize in place.
    Resize {
        /// The block.
        target: Target,
        /// The size that the caller claims the block has.
        old: ClaimedSize,
        /// The new size in bytes.
        new: usize,
    },
    /// The metadata is copied to another address and the engine attached there.
    Relocate,
    /// All blocks and queries are compared, and the invariants checked.
    Inspect,
}

/// The offset that is passed to an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The offset of a used block: an index into all of them, modulo their count.
    Live(usize),
    /// The offset of a freed block, by an index as for `Live`.
    Dead(usize),
    /// An offset inside or after a used block: an index as for `Live`, and a distance in bytes.
    Inside(usize, usize),
    /// Any offset.
    At(usize),
}

/// The size that a caller passes for a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimedSize {
    /// The size that was requested.
    Actual,
    /// Any other size.
    Other(usize),
}
