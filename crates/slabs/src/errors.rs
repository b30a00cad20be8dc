//! The errors of requests.

/// There is no memory, or the request is longer than any object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;

/// The reason why a block was not reallocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotMoved {
    /// No block starts at the address.
    NotABlock,
    /// There is no memory.
    OutOfMemory,
}
