//! The commands that README and the pages of docs show: blocks of code with the markers above them, the folders in
//! which they run, and what of their output must be as shown. A dev-dependency only.
//!
//! `cargo test -p heapwright-lab --test documents` runs them.

pub mod marker;
pub mod options;
pub mod page;
pub mod place;
pub mod shown;
