//! Patterns of heap use by programs, each simple enough for a description in one sentence. All random choices have
//! fixed seeds: every allocator gets the same requests.

pub mod churn;
pub mod growth;
pub mod kept;
pub mod large;
pub mod pairs;
pub mod phases;
pub mod published;
pub mod queue;
pub mod scattered;
pub mod server;
pub mod sharing;
pub mod tails;
pub mod threads;
pub mod touch;
