//! Heaps in memory that processes share: `hw_shared_*`.
//!
//! A failed call returns a status; its thread can then ask for a description in words.

pub(crate) mod create;
pub(crate) mod failure;
pub(crate) mod inspect;
pub(crate) mod mutex;
pub(crate) mod operate;
pub(crate) mod publish;
pub(crate) mod roots;
pub(crate) mod types;
