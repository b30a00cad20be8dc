//! Violations of an allocator's contract, and their messages.

use std::fmt;

/// Kinds of violations.
pub mod kind {
    /// A block is not aligned as required. Expected: the alignment.
    pub const MISALIGNED: u32 = 1;
    /// The contents of a block have changed.
    pub const OVERWRITTEN: u32 = 2;
    /// A block's contents were not kept when it was resized.
    pub const NOT_KEPT: u32 = 3;
    /// A block of `calloc` is not zero.
    pub const NOT_ZERO: u32 = 4;
}

/// A difference between what a block holds and what it must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The offset in the block, in bytes.
    pub offset: usize,
    /// Up to eight bytes from that offset on, as an integer.
    pub expected: u64,
    pub found: u64,
}

/// A violation. All zeroes is none.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Violation {
    pub kind: u32,
    /// The block's slot.
    pub slot: u32,
    /// The number of the event at which it was detected.
    pub event: u64,
    pub address: u64,
    pub size: u64,
    pub offset: u64,
    pub expected: u64,
    pub found: u64,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Violation { address, size, offset, expected, found, .. } = *self;
        let held = |what: &str| {
            format!(
                "{what}: the bytes from {offset} on are {found:#018x} instead of {expected:#018x} \
                 (address {address:#x}, {size} bytes)"
            )
        };
        match self.kind {
            kind::MISALIGNED => write!(f, "is at {address:#x}, which is not a multiple of {expected} ({size} bytes)"),
            kind::NOT_KEPT => f.write_str(&held("lost its contents when it was resized")),
            kind::NOT_ZERO => f.write_str(&held("is not zero although calloc made it")),
            _ => f.write_str(&held("was overwritten while it lived")),
        }
    }
}
