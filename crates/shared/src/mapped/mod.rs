//! A segment as a process has it.
//!
//! From the bottom up: `sections` (all parts, wherever they lie), `mapping` (as it is mapped), `engine` (the placement
//! engine over it), `contents` (what its file holds), `copy` (a private copy).

pub(crate) mod contents;
pub(crate) mod copy;
pub(crate) mod engine;
pub(crate) mod mapping;
pub(crate) mod sections;
