//! What README and the pages of docs say, as far as their commands go: blocks of code with the markers above them, the
//! folders in which they run, and what of their output must be as shown. `cargo test -p heapwright-lab --test documents`
//! runs them. A dev-dependency only.

pub mod marker;
pub mod options;
pub mod page;
pub mod place;
pub mod shown;
