//! The load of a process on a heap that several processes share.

mod load;
pub mod task;
pub mod worker;
