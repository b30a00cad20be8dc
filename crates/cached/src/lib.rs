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
//! The parts up to the heap of a thread are in `heapwright-slabs`. Each file here uses only files of the layers below
//! its own (`.ci/house` checks that there is no circle). From the bottom up:
//!
//! - `counts`, `decay`: the counts of calls, where they are kept, and the decay of the arena;
//! - `long`, `harden`: long blocks, and the hardened heap over the same arena;
//! - `fork`, `startup`, `departure`, `lifecycle`: forks, initialisation, and the heaps of threads that begin and end;
//! - `trim`, `upkeep`: purging on request, and now and then;
//! - `lookup`, `allocate`, `free`, `resize`, `pages`, `census`, `places`, `global`: what this page exports.
#![no_std]

#[cfg(test)]
extern crate std;

mod allocate;
mod census;
mod counts;
mod decay;
mod departure;
mod fork;
mod free;
mod global;
mod harden;
#[cfg(all(loom, test))]
mod interleavings;
mod lifecycle;
mod long;
mod lookup;
mod pages;
#[cfg(not(loom))]
mod places;
mod resize;
mod startup;
mod trim;
mod upkeep;

pub use allocate::{allocate, allocate_aligned, allocate_zeroed, take, take_hardened, take_zeroed};
pub use census::{Census, ClassSlabs, DissolvedSlabs, census, census_of, heaps};
pub use counts::{ClassCount, Totals, class_counts, keep_counts, totals};
pub use fork::{after_fork, after_fork_in_child, before_fork};
pub use free::{free, free_sized, give, give_any, give_hardened, give_sized};
pub use global::Cached;
pub use harden::harden;
pub use heapwright_slabs::classes::sizes;
pub use heapwright_slabs::errors::{NotMoved, OutOfMemory};
#[cfg(not(loom))]
pub use heapwright_slabs::heap::HeapGlance;
pub use heapwright_slabs::heap::turn_dissolving_off;
pub use heapwright_slabs::measures::Measures;
pub use heapwright_slabs::purging::{Purging, set_purging};
pub use heapwright_slabs::scarcity::{known_limit, set_limit, times_scarce};
#[cfg(not(loom))]
pub use heapwright_slabs::slab::SlabGlance;
pub use lookup::usable_size;
pub use pages::{each_page_hole, page_counters, page_holes, page_returns};
#[cfg(not(loom))]
pub use places::{Places, places, write_state};
pub use resize::{reallocate, resize_in_place, retake};
pub use startup::start;
pub use trim::trim;
