//! The rules of the heaps that the reports measured.

use heapwright_placement::{PolicyKind, Rules, Statistics};
use heapwright_rules::{REPORT000, REPORT001, REPORT002, REPORT003};
use heapwright_shared::Settings;

/// Report 000: headers of 24 bytes, sizes rounded up to 4 bytes, a hole is split when more than 28 bytes remain, and
/// the heap grows by the requested bytes.
pub const FITS: Rules = REPORT000.rules;

/// More bytes than report 000's program ever needs.
pub const FITS_CAPACITY: usize = 256 << 20;

/// Report 001: no headers, sizes rounded up to 4 bytes, every remainder becomes a hole, one fixed region.
pub const ARENA: Rules = REPORT001.rules;

/// Bytes that the largest part of report 001's program needs.
pub const ARENA_CAPACITY: usize = 100_000 * 4096;

/// Report 002: 256 KiB under buddies with blocks of at least 128 bytes, for ten processes.
pub fn segment() -> Settings {
    const LIMIT: usize = match REPORT002.limit {
        Some(limit) => limit as usize,
        None => panic!("report 002 has a limit"),
    };
    Settings { size: LIMIT, policy: PolicyKind::Buddy, granule: 128, processes: 10, roots: 0, ..Settings::default() }
}

/// Report 003: headers inside the pool, and a remainder with room for a header only stays with the block. All requested
/// sizes are even.
pub const fn pool(header: u32) -> Rules {
    let published = REPORT003.rules;
    Rules { header, min_remainder: header + published.granule, statistics: Statistics::Off, ..published }
}
