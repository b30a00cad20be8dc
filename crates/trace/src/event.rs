//! What happens to a heap.

/// By which kind of call a block was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `malloc` and all that is like it: contents are whatever they were.
    Malloc,
    /// `calloc`: contents are zero.
    Calloc,
    /// `aligned_alloc`, `posix_memalign` and their kin: at an alignment that was asked for.
    Aligned,
}

/// One event of a trace. Blocks are numbered from 0 in the order in which they appear, by allocation or by resizing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A block of `size` bytes appears.
    Allocate {
        /// Its number.
        block: u64,
        /// How it was asked for.
        kind: Kind,
        /// How many bytes were asked for, possibly 0.
        size: u64,
        /// The alignment that was asked for, a power of two, or what every block has (16).
        align: u64,
    },
    /// A block becomes another of `size` bytes, with its contents, where it is or elsewhere.
    Resize {
        /// The number of the block that goes.
        block: u64,
        /// The number of the block that appears.
        becomes: u64,
        /// How many bytes were asked for.
        size: u64,
    },
    /// A block goes.
    Free {
        /// Its number.
        block: u64,
    },
    /// A block of `size` bytes was asked for and refused.
    Failed {
        /// How many bytes were asked for.
        size: u64,
        /// The alignment that was asked for, a power of two, or what every block has (16).
        align: u64,
    },
    /// What follows happens in this thread.
    Thread {
        /// Its number, from 0 in the order in which threads first appear.
        thread: u64,
    },
}

/// The alignment of a block that was asked for without one, in bytes.
pub(crate) const USUAL_ALIGN: u64 = 16;
