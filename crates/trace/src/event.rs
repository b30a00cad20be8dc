//! The events of a trace.

/// The kind of call that requested a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `malloc` and similar calls: contents are uninitialized.
    Malloc,
    /// `calloc`: contents are zeroed.
    Calloc,
    /// `aligned_alloc`, `posix_memalign` and similar calls: the request names an alignment.
    Aligned,
}

impl Kind {
    /// Returns the alignment that such a request names, whose event has `align`; 1 if it names none. The default
    /// alignment is named by requests of kind [`Kind::Aligned`] only.
    #[inline(always)]
    #[must_use]
    pub const fn named_align(self, align: u64) -> u64 {
        if align == DEFAULT_ALIGN && !matches!(self, Kind::Aligned) { 1 } else { align }
    }
}

/// One event of a trace. Blocks are numbered from 0 in the order in which allocations and resizes create them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A block of `size` bytes is allocated.
    Allocate {
        /// The number of the block.
        block: u64,
        /// The kind of call.
        kind: Kind,
        /// The requested size in bytes, possibly 0.
        size: u64,
        /// The requested alignment in bytes, a power of two; the default alignment (16) if the request names none.
        align: u64,
    },
    /// A block is resized, in place or by moving its contents, and has a new number from then on.
    Resize {
        /// The number of the block before the resize. It is no longer live afterwards.
        block: u64,
        /// The number of the block after the resize.
        becomes: u64,
        /// The requested size in bytes.
        size: u64,
    },
    /// A block is freed.
    Free {
        /// The number of the block.
        block: u64,
    },
    /// A request for a block of `size` bytes fails.
    Failed {
        /// The requested size in bytes.
        size: u64,
        /// The requested alignment in bytes, a power of two; the default alignment (16) if the request names none.
        align: u64,
    },
    /// The events that follow happen in this thread.
    Thread {
        /// The number of the thread, from 0 in the order in which threads first appear.
        thread: u64,
    },
}

impl Event {
    /// Whether the event is a call of the program: a change of threads only says which thread makes the next ones.
    /// Counts of events that are shown to users count calls.
    #[inline]
    #[must_use]
    pub const fn is_call(&self) -> bool {
        !matches!(self, Event::Thread { .. })
    }
}

/// The alignment in bytes of a block whose request names none.
pub const DEFAULT_ALIGN: u64 = 16;
