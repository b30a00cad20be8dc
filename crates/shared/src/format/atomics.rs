//! The atomics of what is stored without the lock, or before it is released. The models of `slabs/interleavings.rs`
//! compile the same files over others.

pub(crate) use std::sync::atomic::{AtomicU64, compiler_fence};
