//! Heapwright's heaps for C and C++. The headers `include/heapwright.h`, `include/mavalloc.h` and `include/sbmem.h`
//! document the functions. Module `exports` exports the names, one line each; the other modules implement them.
//!
//! Arguments are checked as far as C allows: null pointers, handles of destroyed heaps and addresses at which no block
//! starts are refused with a [`Status`].

mod create;
mod exports;
mod fork_watch;
mod handle;
mod inspect;
mod mavalloc;
mod operate;
mod out;
mod sbmem;
mod shared;
mod types;

pub use shared::types::{SharedAccess, SharedBlock, SharedProcess, SharedReclaimed, SharedRoot, SharedSettings};
pub use types::{Block, Holes, Options, RequestRules, Status, Violation};
