//! The programs of the published experiments, the heaps that they ran on, and those heaps' rules.

pub mod heaps;
pub mod programs;
pub mod rules;
