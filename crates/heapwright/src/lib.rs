//! Heaps with the placement policy of your choice.
//!
//! - [`FixedHeap`]: in memory that you provide, from 256 bytes up; [`Regions`] for several ranges; [`LockedHeap`] and
//!   [`StaticHeap`] as a program's allocator.
#![cfg_attr(
    feature = "os",
    doc = "- [`GrowingHeap`]: address space reserved once, memory committed as the heap grows and purged when it
  shrinks; [`GlobalHeap`] as a program's allocator.
- [`MappedHeap`]: every allocation a mapping of its own.
- [`Cached`]: a global allocator with thread caches, for speed and many threads.

```
#[global_allocator]
static A: heapwright::Cached = heapwright::Cached;

let words: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
assert_eq!(words.concat().len(), 2890);
```"
)]
//!
//! Without the feature `os`, which is on by default, only the first line of these is available, and neither the
//! standard library nor an operating system is needed.
#![no_std]

#[doc(inline)]
pub use heapwright_heaps::*;

#[cfg(feature = "os")]
pub use heapwright_cached::Cached;

#[cfg(feature = "os")]
pub mod cached;

/// Runs the examples of the page as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/heaps.md")]
struct ChoosingAHeap;
