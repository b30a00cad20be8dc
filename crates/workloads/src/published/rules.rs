//! The rules of the heaps that the reports measured.

use heapwright_placement::{Growth, PolicyKind, Rules, Statistics};
use heapwright_shared::Settings;

/// Report 000: headers of 24 bytes, sizes rounded up to 4 bytes, a hole is split when more than 28 bytes remain, and
/// the heap grows by the requested bytes.
pub const FITS: Rules =
    Rules { granule: 4, header: 24, min_remainder: 32, growth: Growth::Append, phase: 0, statistics: Statistics::Kept };

/// More bytes than report 000's program ever needs.
pub const FITS_CAPACITY: usize = 256 << 20;

/// Report 001: no headers, sizes rounded up to 4 bytes, every remainder becomes a hole, one fixed region.
pub const ARENA: Rules =
    Rules { granule: 4, header: 0, min_remainder: 1, growth: Growth::Fixed, phase: 0, statistics: Statistics::Kept };

/// Bytes that the largest part of report 001's program needs.
pub const ARENA_CAPACITY: usize = 100_000 * 4096;

/// Report 002: 256 KiB under buddies with blocks of at least 128 bytes, for ten processes.
pub fn segment() -> Settings {
    Settings {
        size: 256 << 10,
        policy: PolicyKind::Buddy,
        granule: 128,
        processes: 10,
        roots: 0,
        ..Settings::default()
    }
}

/// Report 003: headers inside the pool, and a remainder with room for a header only stays with the block. All requested
/// sizes are even.
pub const fn pool(header: u32) -> Rules {
    Rules {
        granule: 2,
        header,
        min_remainder: header + 2,
        growth: Growth::Fixed,
        phase: 0,
        statistics: Statistics::Off,
    }
}
