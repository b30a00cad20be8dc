//! What programs do to a heap, each in a form that can be told in a sentence. Everything that is drawn at random has a fixed seed: every
//! allocator sees the same requests.

pub mod churn;
pub mod growth;
pub mod large;
pub mod pairs;
pub mod published;
pub mod queue;
pub mod scattered;
pub mod server;
pub mod sharing;
pub mod threads;
pub mod touch;
