//! The heap of glibc's malloc: found by its structure, and walked.
//!
//! The layout of `malloc_state` and `malloc_par` differs between versions of glibc. It is derived from what every
//! version shares: the bins, a ring of arenas, and the start of the program break.

mod arena;
mod arenas;
mod lists;
mod main_arena;
mod mmapped;
mod walk;

pub use arena::{Arena, Segment};
pub use arenas::{Arenas, Parameters, find, ranges};
pub use lists::{Cache, Cached, cache_sized, fast_blocks};
pub use mmapped::own_mappings;
pub use walk::{ArenaMap, Block, Listing, MapCell, SizeClass, Walked, walk};

/// Bits of a chunk's size that are flags.
const FLAGS: u64 = 7;

/// Flag of a chunk's size: the chunk in front is in use.
const PREVIOUS_IN_USE: u64 = 1;

/// Flag of a chunk's size: the chunk has a mapping of its own.
const MMAPPED: u64 = 2;

/// Alignment of chunks.
const ALIGN: u64 = 16;

/// The shortest chunk.
const SHORTEST: u64 = 32;

/// Bytes of a chunk in front of the program's.
const HEADER: u64 = 16;

/// Rounds `address` up to a multiple of `align`, a power of two.
fn align_up(address: u64, align: u64) -> u64 {
    address.saturating_add(align - 1) & !(align - 1)
}
