//! The programs of the published experiments, the heaps that they ran on, and those heaps' rules.

mod gnu_random;
pub mod heaps;
pub mod programs;
pub mod rules;

pub use gnu_random::GnuRandom;
