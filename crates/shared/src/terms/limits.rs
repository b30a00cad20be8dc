//! What every segment is limited to.

/// The most processes that may be attached at a time.
pub const MAX_PROCESSES: usize = 250;

/// The most names that a segment may hold.
pub const MAX_ROOTS: usize = 1 << 16;

/// The longest name of a root, in bytes.
pub const LONGEST_NAME: usize = 40;

/// The largest granule of heaps with slabs, in bytes.
pub(crate) const LARGEST_GRANULE: u32 = 256;
