//! What a program can ask of the heap that [`Cached`](crate::Cached) allocates from: there is one in a process.
//!
//! ```
//! use heapwright::cached::{page_counters, trim};
//!
//! #[global_allocator]
//! static A: heapwright::Cached = heapwright::Cached;
//!
//! drop(vec![1u8; 50 << 20]);
//! trim();
//! let pages = page_counters().ok_or("no address space")?;
//! assert!(pages.peak_live >= 50 << 20 && pages.live < 50 << 20);
//! # Ok::<(), &str>(())
//! ```

pub use heapwright_cached::{page_counters, page_holes, page_returns, trim, usable_size};
