//! What is done with a segment without opening it: a look at a private copy (`snapshot`), at one in use (`observer`),
//! and `repair`.

pub(crate) mod observer;
pub(crate) mod repair;
pub(crate) mod snapshot;
