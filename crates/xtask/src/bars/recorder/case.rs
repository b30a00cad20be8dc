//! A program and its recordings.

use crate::truth::programs::Program;

/// A program and how it is recorded.
pub struct Case {
    pub program: Program,
    pub recordings: &'static [Recording],
}

/// A way to record a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recording {
    /// Its name in tables.
    pub name: &'static str,
    /// The options of `heapwright record`.
    pub options: &'static [&'static str],
}
