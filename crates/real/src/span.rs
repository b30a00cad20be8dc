//! The part of a trace in which a thread has events.

/// The first and last event of a thread, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) first: u64,
    pub(super) last: u64,
}

impl Span {
    /// A thread without events.
    pub(super) const NEVER: Span = Span { first: u64::MAX, last: 0 };
}
