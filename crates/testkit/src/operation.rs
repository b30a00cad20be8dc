//! What can be done to a heap, in terms that stay meaningful when operations before it are left out.

/// One operation of an [`Engine`](heapwright_placement::Engine).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A request of so many bytes at so many bytes of alignment (which may be no power of two).
    Allocate {
        /// How many bytes.
        bytes: usize,
        /// At which alignment.
        align: usize,
    },
    /// A free without the size.
    Deallocate(Target),
    /// A free with the size.
    DeallocateSized(Target, Told),
    /// A resize in place.
    Resize {
        /// Which block.
        target: Target,
        /// What size it is said to have.
        old: Told,
        /// What size it shall have.
        new: usize,
    },
    /// The metadata is moved elsewhere and the heap taken up there.
    Relocate,
    /// Everything that can be asked of a heap is asked, and its invariants checked.
    Inspect,
}

/// The offset that an operation is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// That of a block in use: the one at this place, counted around, among all.
    Live(usize),
    /// That of a block that was freed, counted likewise.
    Dead(usize),
    /// So many bytes behind that of a block in use.
    Inside(usize, usize),
    /// Any offset.
    At(usize),
}

/// The size that a block is said to have been asked for with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// The one that it was.
    Truly,
    /// Any other.
    As(usize),
}
