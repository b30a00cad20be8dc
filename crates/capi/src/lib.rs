//! Heapwright's heaps for C and C++. `include/heapwright.h`, `include/mavalloc.h` and `include/sbmem.h` say what the functions do;
//! the names are exported by `exports`, one line each, and what they do is in the other modules.
//!
//! Nothing that a caller passes is trusted further than C allows: null pointers, handles of heaps that are gone and blocks
//! that are none come back as a [`Status`].

mod create;
mod exports;
mod handle;
mod inspect;
mod mavalloc;
mod operate;
mod sbmem;
mod shared;
mod types;

pub use shared::types::{SharedAccess, SharedBlock, SharedProcess, SharedReclaimed, SharedRoot, SharedSettings};
pub use types::{Block, Holes, Options, Status, Violation};
