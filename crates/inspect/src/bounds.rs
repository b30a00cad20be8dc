//! Bounds in the text about a process, of glibc's malloc and of this project's: what is named, and how much of it.

/// The share of memory from which on it counts as the cause.
pub(crate) const MOST: f64 = 0.7;

/// The share of blocks in memory below which it is shown.
pub(crate) const TOUCHED: f64 = 0.9;

/// The most sizes and origins that are shown.
pub(crate) const ROWS: usize = 12;
