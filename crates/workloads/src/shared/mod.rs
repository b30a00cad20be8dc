//! The load of a process on a heap that several processes share.

mod durations;
pub mod load;
pub mod task;
pub mod worker;
