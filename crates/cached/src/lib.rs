//! The default malloc of a process: a cache of free blocks per thread, in front of slabs and long blocks in an arena of
//! pages.
//!
//! A request of up to 32 KiB has a size class. Each thread has a heap with a thread cache: a free list per class. The
//! fast path of a call touches one line of the heap, and the block. Lists are filled from and flushed into slabs: 64
//! KiB of blocks of one class, managed by the page. Pages are thus not touched before they are needed, and can be
//! purged while the rest of their slab is in use. Slab metadata is out of band and is found by the address of a block.
//!
//! A slab of which few blocks are left is dissolved when the heap needs another one: its holes then serve other
//! classes.
//!
//! A slab belongs to one heap. Blocks that another thread frees (remote frees) are buffered and sent to the inbox of
//! the owner in batches. When the owner sleeps or has ended, other threads reclaim them. The heap of a thread that ends
//! waits for the next thread, with its slabs.
//!
//! Slabs and blocks of up to 32 MiB are placed by a first-fit engine over pages, behind the arena's lock. The tables
//! that describe them grow with the pages. Longer blocks have mappings of their own.
//!
//! Each file uses only files of the layers below its own (`.ci/house` checks that there is no circle). From the bottom
//! up:
//!
//! - `platform` (for loom `model`), `classes`, `errors`, `corruption`, `measures`: what all others use;
//! - `mode`, `counts`: whether and what is counted, and the measures of hardening;
//! - `scarcity`, `purging`: whether memory is scarce, and when free pages are purged;
//! - `links`, `entry`, `free_list`, `slab_list`, `slab`, `inbox`, `owner_lock`, `long_cache`: the parts of heaps;
//! - `tables`, `arena`, `origin`: the pages and their tables, and where a block belongs;
//! - `heap`, `thread`: the heaps, and that of the calling thread;
//! - `long`, `harden`: long blocks, and the hardened heap over the same arena;
//! - `fork`, `startup`, `lifecycle`: forks, initialisation, and the heaps of threads that begin and end;
//! - `trim`, `upkeep`: purging on request, and now and then;
//! - `lookup`, `allocate`, `free`, `resize`, `pages`, `census`, `places`, `global`: what this page exports.
#![no_std]

#[cfg(test)]
extern crate std;

mod allocate;
mod arena;
mod census;
mod classes;
mod corruption;
mod counts;
mod entry;
mod errors;
mod fork;
mod free;
mod free_list;
mod global;
mod harden;
mod heap;
mod inbox;
#[cfg(all(loom, test))]
mod interleavings;
mod lifecycle;
mod links;
mod long;
mod long_cache;
mod lookup;
mod measures;
mod mode;
mod origin;
mod owner_lock;
mod pages;
#[cfg(not(all(loom, test)))]
mod places;
#[cfg(all(loom, test))]
#[path = "model.rs"]
mod platform;
#[cfg(not(all(loom, test)))]
mod platform;
mod purging;
mod resize;
mod scarcity;
mod slab;
mod slab_list;
mod startup;
mod tables;
mod thread;
mod trim;
mod upkeep;

pub use allocate::{allocate, allocate_aligned, allocate_zeroed, take, take_hardened, take_medium, take_zeroed};
pub use census::{Census, ClassSlabs, DissolvedSlabs, census, census_of, heaps};
pub use classes::sizes;
pub use counts::{ClassCount, Totals, class_counts, keep_counts, totals};
pub use errors::{NotMoved, OutOfMemory};
pub use fork::{after_fork, after_fork_in_child, before_fork};
pub use free::{free, free_sized, give, give_any, give_hardened, give_sized};
pub use global::Cached;
pub use harden::harden;
#[cfg(not(all(loom, test)))]
pub use heap::HeapGlance;
pub use heap::turn_dissolving_off;
pub use lookup::usable_size;
pub use measures::Measures;
pub use pages::{each_page_hole, page_counters, page_holes, page_returns};
#[cfg(not(all(loom, test)))]
pub use places::{Places, places, write_state};
pub use purging::{Purging, set_purging};
pub use resize::{reallocate, resize_in_place};
pub use scarcity::{known_limit, set_limit, times_scarce};
#[cfg(not(all(loom, test)))]
pub use slab::SlabGlance;
pub use startup::start;
pub use trim::trim;
