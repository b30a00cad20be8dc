//! Queries of a program about its heap.

use heapwright_os::Output;

use crate::state::with_rarely;
use crate::statistics;
use crate::summary::Summary;

/// `mallinfo`: returns a summary of the heap.
#[must_use]
pub fn summary() -> Summary {
    with_rarely(|state| Summary::of(&mut state.heap)).unwrap_or_default()
}

/// `malloc_trim`: purges every whole free page; returns whether there was any.
pub fn trim() -> bool {
    with_rarely(|state| state.heap.trim()).is_some_and(|bytes| bytes != 0)
}

/// `malloc_stats`: prints the table on standard error.
pub fn print_statistics() {
    statistics::print_table(Output::standard_error());
}
