//! Heaps in memory that processes share: `hw_shared_*`.
//!
//! What fails is told by a status, and in words to the thread that asks.

pub(crate) mod answer;
pub(crate) mod create;
pub(crate) mod failure;
pub(crate) mod inspect;
pub(crate) mod operate;
pub(crate) mod roots;
pub(crate) mod types;
