//! Queries about the heap that [`Cached`](crate::Cached) allocates from; there is one per process.
//!
//! ```
//! use heapwright::cached::{census, trim};
//!
//! #[global_allocator]
//! static A: heapwright::Cached = heapwright::Cached;
//!
//! let bytes = vec![1u8; 50 << 20];
//! assert!(census().is_some_and(|census| census.used_bytes() >= 50 << 20));
//! drop(bytes);
//! trim();
//! assert!(census().is_some_and(|census| census.used_bytes() < 1 << 20));
//! ```
//!
//! The environment variable `HEAPWRIGHT_HARDEN` enables hardening measures against memory errors and attacks.

pub use heapwright_cached::{Census, ClassSlabs, census, page_returns, trim, usable_size};
