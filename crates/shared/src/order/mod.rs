//! How a segment is found in order, or put in order, and whose its blocks are.
//!
//! From the bottom up: `owners`, `processes` (the process table), `condition`, `seal` (of a segment at rest), `beyond`
//! (what lies behind the heap's end), `recover`, `view` (how a process takes its place).

pub(crate) mod beyond;
pub(crate) mod condition;
pub(crate) mod owners;
pub(crate) mod processes;
pub(crate) mod recover;
pub(crate) mod seal;
pub(crate) mod view;
